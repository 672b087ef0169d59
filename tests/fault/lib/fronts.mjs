// All three fronts of one fleet at work while its parts die: one person each at a terminal (`chat`), at the page (its own script)
// and in Telegram (a Bot API of our own), who says one message after the other; beside them a page and a terminal that
// only listen. What the page is given is compared with what the manager kept, and each front's screen with that.
import assert from 'node:assert/strict';
import { codeOf } from '../../e2e/lib/telegram-fleet.mjs';
import { pageOf } from '../../e2e/lib/page.mjs';
import { ended, until } from '../../e2e/lib/until.mjs';

const OWNER = 4242, ROOM = -1002, PAGE = 500, LAST_MS = 300_000;
const KEPT = ['queued', 'started', 'report', 'note', 'unknown', 'refused'], ENDS = ['report', 'unknown', 'refused'];

/** A message that leaves its mark in the project and shows it, so that neither is the other. */
export const words = mark => `echo ${mark} >>runs; echo "<"${mark}">"`;
const said = mark => `"<"${mark}">"`, shown = mark => `<${mark}>`;
const markIn = text => text.match(/"<"([\w-]+)">"/)?.[1];
const times = (text, part) => text.split(part).length - 1;
const grouped = (list, key) => list.reduce((m, e) => m.set(key(e), [...m.get(key(e)) ?? [], e]), new Map());
const idOf = e => `${e.agent} ${e.id}`;

export class Fronts {
    /** rig: of telegramFleet(). agents: whom the page, Telegram and the terminal speak to. */
    static async start(rig, agents) {
        const f = new Fronts();
        Object.assign(f, rig, { agents, seen: [], known: new Map(), marks: new Map(), ends: new Set(), told: new Map(), faults: [] });
        const { tg } = rig;
        const done = await f.setUp();
        assert.equal(done.status, 0, done.stderr);
        tg.chat(OWNER);
        tg.say(OWNER, OWNER, codeOf(done.stdout));
        await tg.see(OWNER, 'You are paired');
        tg.chat(ROOM);
        tg.added(ROOM, OWNER);
        tg.say(ROOM, OWNER, `/link ${agents.telegram}`);
        await tg.see(ROOM, 'the agent\'s room now');
        f.page = await pageOf((await f.must('web', 'login')).trim());
        f.listener = f.terminal();
        f.talker = f.terminal(agents.terminal);
        f.following = f.page.follow(1, { event: e => f.take(e), loggedOut: () => f.faults.push('the page was logged out'),
            state: () => { if (f.over) throw f.over; } }).catch(e => { if (e !== f.over) f.faults.push(e.message); });
        // From here on each of them is to miss nothing.
        await f.must('send', agents.page, words('first'), '--wait');
        await until('all to see it', 60_000, () => f.screen().includes(shown('first')) && [f.listener, f.talker].every(t => t.heard.length) && f.ends.size);
        return f;
    }

    terminal(...agent) {
        const child = this.fleet.spawn(['chat', ...agent], { stdio: ['pipe', 'pipe', 'pipe'] }), t = { child, heard: '' };
        child.stdin.on('error', () => {});
        for (const out of [child.stdout, child.stderr])
            out.setEncoding('utf8').on('data', d => { t.heard += d; });
        child.once('exit', status => { if (!this.over) this.faults.push(`a terminal ended with ${status}: ${t.heard.slice(-500)}`); });
        return t;
    }

    take(e) {
        if (!KEPT.includes(e.kind))
            return;
        this.seen.push(e.seq);
        this.learn(e);
    }

    learn(e) {
        this.known.set(e.seq, e);
        if (e.kind === 'queued' && markIn(e.text))
            this.marks.set(markIn(e.text), idOf(e));
        if (ENDS.includes(e.kind))
            this.ends.add(idOf(e));
    }

    /** What stands in Telegram, without the strips. */
    screen() {
        return [OWNER, ROOM].flatMap(c => this.tg.texts(c)).filter(t => t && !/^[▸✓✗[]/.test(t)).join('\n');
    }

    hasEnded(mark) {
        return this.ends.has(this.marks.get(mark));
    }

    wait(mark, orElse = () => false) {
        return until(`${mark} to end`, LAST_MS, () => this.hasEnded(mark) || orElse());
    }

    async sayInPage(mark) {
        try {
            await this.page.say(this.agents.page, words(mark), this.page.newKey());
        } catch (e) {
            this.told.set(mark, e.message);
            return;
        }
        await this.wait(mark);
    }

    async sayInTelegram(mark) {
        this.tg.say(ROOM, OWNER, words(mark));
        await this.wait(mark);
    }

    async sayInTerminal(mark) {
        const from = this.talker.heard.length;
        const refusal = () => this.talker.heard.slice(from).match(/^▪ the manager (?!.*trying again …$).*$/m)?.[0];
        this.talker.child.stdin.write(`${words(mark)}\n`);
        await this.wait(mark, refusal);
        if (!this.hasEnded(mark))
            this.told.set(mark, refusal());
    }

    /** The three of them, until `over`. */
    speak(over) {
        const ways = { page: m => this.sayInPage(m), telegram: m => this.sayInTelegram(m), terminal: m => this.sayInTerminal(m) };
        this.said = [];
        return Object.entries(ways).map(async ([front, say]) => {
            for (let i = 0; !over(); i++) {
                this.said.push(`${front}-${i}`);
                await say(`${front}-${i}`);
            }
        });
    }

    /** Everything that the manager kept from the first event that the page saw. */
    async history() {
        const all = [];
        for (let before = 0; ;) {
            const some = await this.page.page('', PAGE, before);
            all.unshift(...some);
            if (some.length < PAGE || some[0].seq <= this.seen[0])
                return all.filter(e => e.seq >= this.seen[0]);
            before = some[0].seq;
        }
    }

    /** When all is quiet, what is wrong. runs(): how often each mark stands in the projects. */
    async judge(runs) {
        await this.must('send', this.agents.telegram, words('last'), '--wait');
        await this.must('send', this.agents.page, words('last-too'), '--wait');
        await until('Telegram to have shown the last', LAST_MS, () => ['last', 'last-too'].every(m => this.screen().includes(shown(m))));
        await until('the others too', 60_000, () => this.hasEnded('last-too') && this.listener.heard.includes(shown('last-too')));
        const all = await this.history(), ran = runs(), faults = [...this.faults], screen = this.screen();
        const want = (what, is, should) => { if (is !== should) faults.push(`${what}: ${is} and not ${should}`); };
        want('what the page was given, in order', this.seen.join(), all.map(e => e.seq).join());
        const queued = grouped(all.filter(e => e.kind === 'queued'), e => markIn(e.text)), ends = grouped(all.filter(e => ENDS.includes(e.kind)), idOf);
        for (const mark of this.said)
            want(`${mark} taken${this.told.has(mark) ? `, and its front said "${this.told.get(mark)}"` : ''}`, queued.get(mark)?.length ?? 0, this.told.has(mark) ? 0 : 1);
        for (const [mark, [e]] of queued) {
            if (!mark)
                continue;
            const its = ends.get(idOf(e)) ?? [], end = its[0];
            want(`ends of ${mark}`, its.length, 1);
            const n = ran.get(mark) ?? 0, cut = end?.kind !== 'report' || end.status !== 0;
            want(`runs of ${mark} (${end?.kind} ${end?.status})`, n, !cut ? 1 : n === 1 && end?.kind !== 'refused' ? 1 : 0);
            const output = end?.text.includes(shown(mark)) ? 1 : 0;
            want(`reports of ${mark} in Telegram`, times(screen, shown(mark)), output);
            // It shows output as it comes, also of a turn whose end then says only that it was cut.
            const lines = times(this.listener.heard, shown(mark));
            want(`reports of ${mark} in the terminal`, lines, output || (cut && lines === 1 ? 1 : 0));
            want(`${mark} as said, in Telegram`, times(screen, said(mark)), e.who.startsWith('telegram:') ? 0 : 1);
            want(`${mark} as said, in the terminal`, times(this.listener.heard, said(mark)), 1);
        }
        return faults;
    }

    async stop() {
        this.over = new Error('over');
        for (const { child } of [this.listener, this.talker]) {
            child.stdin.end();
            await ended(child);
        }
        this.page.close();
        await this.following;
    }
}
