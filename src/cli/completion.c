/* bash's completion, printed from the table of verbs. Names of agents are asked of the fleet (`ls`), quietly.
 */
#include "cli/verb.h"

#include <string.h>

/* The words that the first argument is one of ("ls|rm NAME": ls and rm), and whether an agent's name follows. */
static void emit_choice(FILE *to, const char *args) {
    size_t n = strcspn(args, " ");
    if (args[0] == '[' || !memchr(args, '|', n))
        return;
    fputs("; choice='", to);
    for (size_t i = 0; i < n; i++)
        fputc(args[i] == '|' ? ' ' : args[i], to);
    fprintf(to, "'; second=%s", !strncmp(args + n, " NAME", 5) ? "agent" : "nothing");
}

static void emit_verb(FILE *to, const struct verb *v) {
    fprintf(to, "    %s) words='--help", v->name);
    for (const struct option_row *o = v->options; o->name; o++)
        fprintf(to, " --%s", o->name);
    fputs("'", to);
    for (const struct option_row *o = v->options; o->name; o++)
        if (o->words)
            fprintf(to, "; values[--%s]='%s'", o->name, o->words);
    emit_choice(to, v->args);
    fprintf(to, "; first=%s ;;\n", v->first == AGENT ? "agent" : v->first == WORD ? "word" : "nothing");
}

void completion_emit(FILE *to) {
    fputs("# bash completion for agent-cage; made from its table of verbs by `agent-cage --emit-completion`\n"
          "_agent_cage() {\n"
          "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words='' "
          "choice='' first=nothing second=nothing i\n"
          "  local -A values=()\n"
          "  COMPREPLY=()\n"
          "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "    if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
          "      mapfile -t COMPREPLY < <(compgen -o default -- \"$word\")\n"
          "      return\n"
          "    fi\n"
          "  done\n"
          "  if ((COMP_CWORD == 1)); then\n"
          "    words='",
          to);
    for (const struct verb *v = verbs; v->name; v++)
        fprintf(to, "%s%s", v == verbs ? "" : " ", v->name);
    fputs("'\n"
          "  else\n"
          "    case ${COMP_WORDS[1]} in\n",
          to);
    for (const struct verb *v = verbs; v->name; v++)
        emit_verb(to, v);
    fputs("    esac\n"
          "    [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD - 2]}\n"
          "    [[ $word == = ]] && word=''\n"
          "    if [[ -n ${values[$before]-} ]]; then\n"
          "      words=${values[$before]}\n"
          "    elif ((COMP_CWORD == 2)) && [[ -n $choice ]]; then\n"
          "      words+=\" $choice\"\n"
          "    elif [[ $COMP_CWORD$first == 2agent || $COMP_CWORD$second == 3agent ]]; then\n"
          "      words+=\" $(agent-cage ls 2>/dev/null | awk 'NR > 1 { print $1 }')\"\n"
          "    elif ((COMP_CWORD == 2)) && [[ ${COMP_WORDS[1]} == help ]]; then\n"
          "      words='",
          to);
    for (const struct verb *v = verbs; v->name; v++)
        fprintf(to, "%s%s", v == verbs ? "" : " ", v->name);
    fputs("'\n"
          "    fi\n"
          "  fi\n"
          "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
          "}\n"
          "complete -F _agent_cage agent-cage\n",
          to);
}
