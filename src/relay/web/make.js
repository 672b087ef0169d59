// How an agent is made. That is root's, on the machine: no front can ask for it. So here is the line to run there, and what each
// choice in it means.
import { el, copyButton } from '/dom.js';

const MODES = {
    pod: 'pod: three containers; its commands have the internet.',
    sealed: 'sealed: a pod for code that nobody vouches for. Its commands reach the internet and nothing local; results come out through an outbox. '
        + 'What they leave in the project may run later as you: each stop says what, and the folder is untrusted from then on.',
    bare: 'bare: accounts of the machine. Commands run without a sandbox and with its whole network.',
};
const HARNESSES = { shell: 'shell: each message is a command', claude: 'Claude Code', codex: 'Codex', zai: 'Z.AI', zcode: 'zcode' };
const SEALED = ['shell', 'claude']; // nothing else runs in a sealed cage
const LOG_IN = ['claude', 'codex']; // /auth knows their own log-in

const quoted = word => /^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

function lines({ name, mode, harness, project }) {
    const line = ['agent-cage', 'new', name, '--mode', mode, '--harness', harness, ...project ? ['--project', quoted(project)] : []].join(' ');
    return harness === 'shell' ? line : mode === 'sealed' ? `agent-cage auth --sealed\n${line}` : LOG_IN.includes(harness) ? line : `${line}\nagent-cage auth ${name}`;
}

function behind({ mode, harness }) {
    if (harness === 'shell')
        return '';
    return mode === 'sealed' ? ' Sealed agents have one token of their own: auth --sealed saves it, once for all of them.'
        : LOG_IN.includes(harness) ? ' Send /auth in its room to log it in.' : ' auth asks for its credential.';
}

const field = (label, input) => el('label', {}, el('span', {}, label), input);
const select = (all, change) => el('select', { onchange: change }, Object.entries(all).map(([value, text]) => el('option', { value }, text)));

/** A card that makes the line. */
export function maker() {
    const update = () => {
        const sealed = mode.value === 'sealed';
        for (const o of harness.options)
            o.disabled = sealed && !SEALED.includes(o.value);
        if (harness.selectedOptions[0].disabled)
            harness.value = 'shell';
        const wrong = name.value && !/^[a-z][a-z0-9-]{0,19}$/.test(name.value);
        const it = { name: wrong || !name.value ? 'NAME' : name.value, mode: mode.value, harness: harness.value, project: project.value.trim() };
        text.textContent = lines(it);
        meaning.textContent = wrong ? 'A name is a small letter, then small letters, digits and -, 20 in all.' : MODES[it.mode] + behind(it);
        node.scrollIntoView({ block: 'nearest' });
    };
    const name = el('input', { autocomplete: 'off', spellcheck: 'false', maxlength: 20, oninput: update });
    const mode = select({ pod: 'pod', sealed: 'sealed', bare: 'bare' }, update), harness = select(HARNESSES, update);
    const project = el('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'a new one', oninput: update });
    const text = el('code', {}), meaning = el('p', { role: 'status' });
    const node = el('article', { class: 'msg theirs make', 'aria-label': 'new agent' }, el('div', { class: 'bubble' },
        field('Name', name), field('Cage', mode), field('Harness', harness), field('Project folder', project), meaning,
        el('p', { class: 'quiet' }, 'Agents are made on the machine itself, as root; no chat can. Run there:'),
        el('pre', { class: 'out', tabindex: 0, role: 'group', 'aria-label': 'the line to run' }, text),
        el('div', { class: 'choices' }, copyButton(() => text.textContent), el('button', { type: 'button', onclick: () => node.remove() }, 'Close'))));
    update();
    return node;
}
