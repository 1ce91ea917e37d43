import fc from 'fast-check';
import t from 'tap';
import type { FailureCode } from '#shared/kernel/failure.ts';
import { type ClusterFacts, commandReason, EFFECTS, type LiveWorker, type TracedCommand } from './command-reason.ts';
import { type Effect, REASONS, type ReasonCode, reason, refusalReason, suppressionReason } from './reasons.ts';
import {
  folded,
  LINE_KINDS,
  lineView,
  MAX_VERDICTS,
  pageOf,
  readCursor,
  summaryOf,
  type TraceLine,
  timelineOf,
  traceLine,
  verdictText,
} from './timeline.ts';

const line = (at: number, change: Partial<TraceLine> = {}): TraceLine =>
  traceLine({ kind: 'command', id: `c-${at}`, state: 'PENDING', ...change, at: new Date(at) });

t.test('lines are in time order, causes before effects, each once', async (t) => {
  const attempt = line(5, { kind: 'attempt', id: 'a' });
  const notice = line(5, { kind: 'notice', id: 'n' });
  const made = timelineOf([line(9), notice, attempt, line(9), line(1)]);
  t.strictSame(
    made.map(({ id }) => id),
    ['c-1', 'a', 'n', 'c-9'],
  );
});

t.test('neighbouring events of one type are one line, and others are not', async (t) => {
  const event = (at: number, what: string) => line(at, { kind: 'event', id: `e-${at}`, what, about: 'a' });
  const made = folded([event(1, 'SAVE_ANSWER'), event(2, 'SAVE_ANSWER'), event(3, 'TAB_HIDDEN'), line(4), line(5)]);
  t.match(made, [
    { what: 'SAVE_ANSWER', count: 2, endedAt: new Date(2) },
    { what: 'TAB_HIDDEN', count: 1 },
    { id: 'c-4' },
    { id: 'c-5' },
  ]);
});

t.test('a summary begins with what needs an operator, and counts equal statements', async (t) => {
  const because = (at: number, code: Parameters<typeof reason>[0], effect: Effect) =>
    line(at, { effect, reason: reason(code, code.toLowerCase(), 'act') });
  const lines = [
    because(1, 'MUTED', 'not notified'),
    because(2, 'RUNNING', 'not graded'),
    because(3, 'BACKS_OFF', 'event not published'),
    because(4, 'NO_WORKER', 'not graded'),
    because(5, 'NO_WORKER', 'not graded'),
    because(6, 'DEAD', 'event not published'),
  ];
  const { verdicts, moreVerdicts } = summaryOf(lines);
  t.equal(verdicts.length, MAX_VERDICTS);
  t.equal(moreVerdicts, 1, 'the fifth is counted');
  t.match(verdicts, [
    { code: 'NO_WORKER', count: 2, id: 'c-4', standing: 'stuck' },
    { code: 'DEAD', count: 1 },
    { code: 'BACKS_OFF' },
    { code: 'RUNNING' },
  ]);
  t.equal(verdicts.map(verdictText)[0], 'not graded: no_worker (and 1 more); act');
  t.strictSame(
    summaryOf([line(1, { reason: reason('DEAD', 'x') })]).verdicts,
    [],
    'a line without an effect is no statement',
  );
});

t.test('a walk over pages shows each line once, while lines are added', async () => {
  const lines = fc.array(fc.tuple(fc.nat(20), fc.constantFrom(...LINE_KINDS)), { maxLength: 40 });
  fc.assert(
    fc.property(lines, lines, fc.integer({ min: 1, max: 7 }), (first, added, limit) => {
      const all = timelineOf(first.map(([at, kind], n) => line(at, { kind, id: `${n}` })));
      const more = timelineOf([...all, ...added.map(([at, kind], n) => line(at, { kind, id: `new-${n}` }))]);
      const seen: string[] = [];
      let { lines: page, nextCursor } = pageOf(all, { after: null, limit });
      for (;;) {
        seen.push(...page.map(({ id }) => id));
        if (nextCursor === null) break;
        ({ lines: page, nextCursor } = pageOf(more, { after: readCursor(nextCursor), limit }));
      }
      const old = seen.filter((id) => !id.startsWith('new-'));
      return new Set(seen).size === seen.length && all.length === old.length;
    }),
  );
});

t.test('a cursor that no reply contained is refused', async (t) => {
  for (const text of ['', 'x', '[]', '[1,"a"]', '["1","a","b"]', '[1,"a","b",1]', 'null', '{}'])
    t.equal(readCursor(Buffer.from(text).toString('base64url')), null, text);
  t.strictSame(readCursor(Buffer.from('[1,"a","b"]').toString('base64url')), { at: 1, kind: 'a', id: 'b' });
});

t.test('a line of a reply has texts for times and no effect', async (t) => {
  t.strictSame(lineView(line(0, { effect: 'not graded' })), {
    at: '1970-01-01T00:00:00.000Z',
    kind: 'command',
    id: 'c-0',
    state: 'PENDING',
    what: null,
    about: null,
    attempt: null,
    requestId: null,
    reason: null,
    count: 1,
    nextAt: null,
    endedAt: null,
  });
});

const NOW = Date.UTC(2026, 4, 4, 3);
const at = (offsetMs: number) => new Date(NOW + offsetMs);

function command(change: Partial<TracedCommand> = {}): TracedCommand {
  return {
    _id: 'c-1',
    queue: 'grading',
    status: 'PENDING',
    attempts: 0,
    maxAttempts: 10,
    nextRunAt: at(-40_000),
    lockedUntil: null,
    workerId: null,
    result: null,
    lastError: null,
    replays: 0,
    ...change,
  };
}

const ALL_QUEUES = Object.keys(EFFECTS);
const worker = (actor: string, change: Partial<LiveWorker> = {}): LiveWorker => ({
  _id: `${actor}@host:1`,
  actor,
  queues: ALL_QUEUES,
  slots: 5,
  busy: [],
  ...change,
});
const cluster = (...workers: LiveWorker[]): ClusterFacts => ({ now: NOW, workers, redis: 'up' });
const failed = (message: string, code: FailureCode | null = null) => ({
  fingerprint: 'Error: x',
  message,
  at: at(-1_000),
  code,
  refusal: null,
});
const codeOf = (one: TracedCommand, facts: ClusterFacts, graded = true) =>
  commandReason(one, facts, graded)?.code ?? null;

t.test('a due command without a live worker names the worker to scale', async (t) => {
  t.match(commandReason(command(), cluster(worker('gradenotices'))), {
    code: 'NO_WORKER',
    text: 'no live `grading` worker; 1 command due since 40 s',
    remedy: 'scale `grading`',
  });
  t.equal(codeOf(command(), cluster(worker('grading'))), 'DUE');
  t.equal(codeOf(command(), { ...cluster(worker('grading')), redis: 'down' }), 'REDIS_UNAVAILABLE');
  t.equal(codeOf(command(), cluster(worker('grading', { slots: 1, busy: ['x'] }))), 'NO_FREE_SLOT');
});

t.test('a leased command runs, or its worker was lost', async (t) => {
  const leased = command({ lockedUntil: at(8_000), nextRunAt: at(8_000), workerId: 'grading@host:1' });
  t.equal(codeOf(leased, cluster(worker('grading'))), 'RUNNING');
  t.match(commandReason(leased, cluster(worker('grading', { _id: 'grading@host:2' }))), {
    code: 'WORKER_LOST',
    text: 'its worker grading@host:1 was lost; another goes on when the lease ends in 8 s',
  });
  t.match(commandReason(leased, cluster()), { code: 'NO_WORKER', text: /grading@host:1 was lost/ });
  const over = command({ lockedUntil: at(-1_000), nextRunAt: at(-1_000), workerId: 'grading@host:1' });
  t.equal(codeOf(over, cluster(worker('grading', { _id: 'grading@host:2' }))), 'WORKER_LOST');
  const atDoor = command({ lockedUntil: at(8_000), nextRunAt: at(8_000), workerId: 'web@host:1' });
  t.match(commandReason(atDoor, cluster()), { code: 'RUNNING', text: 'runs now, under the lease of web@host:1' });
});

t.test('a suspect is held or runs alone, and needs no more workers', async (t) => {
  const live = cluster(worker('grading'));
  const held = command({ lapses: 2, nextRunAt: at(3_600_000) });
  const text = 'held until it can run alone: two of its runs did not end';
  t.match(commandReason(held, live), { code: 'HELD', text, remedy: null });
  t.match(commandReason(held, cluster()), { code: 'NO_WORKER', text: /no live `grading` worker runs it alone/ });
  const alone = { ...held, workerId: 'grading@host:1:0a1b2c3d', lockedUntil: at(50_000), nextRunAt: at(50_000) };
  t.match(commandReason(alone, live), { code: 'RUNNING', text: /^runs alone, for 50 s at most/ });
  t.equal(codeOf({ ...alone, lockedUntil: at(-1_000), nextRunAt: at(-1_000) }, live), 'WORKER_LOST');
  t.equal(codeOf(command({ lapses: 1 }), live), 'DUE');
});

t.test('a queue that its worker does not serve names the missing setting', async (t) => {
  const parent = command({ queue: 'gradenotices:parent' });
  const serving = (...queues: string[]) => cluster(worker('gradenotices', { queues }));
  t.match(commandReason(parent, serving('gradenotices:student')), { remedy: 'set `PROFILE_SERVICE_URL`' });
  t.match(commandReason(parent, serving()), { code: 'NOT_CONFIGURED', remedy: 'set `NOTIFICATION_SERVICE_URL`' });
  t.equal(codeOf(parent, serving('gradenotices:student', 'gradenotices:parent')), 'DUE');
});

t.test('a wait names its cause', async (t) => {
  const live = cluster(worker('grading'), worker('essayhandoff'), worker('gradenotices'), worker('settlement'));
  const later = { nextRunAt: at(30_000) };
  const ahead = command({ ...later, queue: 'gradenotices:student', body: { notBefore: at(3_600_000) } });
  t.match(commandReason(ahead, live), { code: 'RELEASE_AHEAD', text: /2026-05-04T04:00:00\.000Z, in 60 min/ });
  const handoff = command({ ...later, queue: 'essayhandoff' });
  t.equal(codeOf(handoff, live, false), 'WAITS_FOR_GRADE');
  t.equal(codeOf(handoff, live), 'SCHEDULED');
  t.match(commandReason(command({ ...later, attempts: 2, lastError: failed('the disk is full') }), live), {
    code: 'BACKS_OFF',
    text: 'attempt 2 of 10 failed: the disk is full; next at 2026-05-04T03:00:30.000Z, in 30 s',
  });
});

t.test('a stored code counts, whatever the text of the error is', async (t) => {
  const live = cluster(worker('settlement'), worker('gradenotices'));
  const waiting = (code: FailureCode | null, message = 'something else') =>
    command({ nextRunAt: at(30_000), queue: 'settlement', lastError: failed(message, code) });
  for (const code of ['MISCONFIGURED', 'CIRCUIT_OPEN', 'WALLET_EMPTY', 'OWNER_FAILED'] as const)
    t.match(commandReason(waiting(code), live), { code, text: /^something else; next at/, remedy: String });
  t.equal(
    codeOf(waiting(null, 'the wallet service answered 402'), live),
    'BACKS_OFF',
    'no code, although the text fits',
  );
  const dead = (code: FailureCode | null, message = 'something else') =>
    command({ status: 'DEAD', attempts: 3, lastError: failed(message, code) });
  t.match(commandReason(dead('RECEIVER_REFUSED'), live), { text: 'dead: something else, which is final' });
  t.match(commandReason(dead('WORKER_KILLED'), live), { code: 'WORKER_KILLED' });
  t.match(commandReason(dead('POISONED'), live), {
    code: 'POISONED',
    text: 'dead: something else',
    remedy: /replay c-1/,
  });
  t.match(commandReason(dead('WALLET_EMPTY'), live), { code: 'DEAD' });
  t.equal(codeOf(dead(null, 'the notification service answered 422'), live), 'DEAD');
});

t.test('a settled command names why it had no effect', async (t) => {
  const live = cluster();
  const dead = command({ status: 'DEAD', attempts: 1, lastError: failed('the disk is full') });
  t.match(commandReason(dead, live), { code: 'DEAD', remedy: /examhall dead replay c-1/ });
  t.match(commandReason(command({ status: 'DEAD' }), live), { code: 'DEAD', text: /no error is stored/ });
  const rejected = command({ status: 'REJECTED', result: { rejected: 'ATTEMPT_NOT_FOUND' } });
  t.match(commandReason(rejected, live), { code: 'REJECTED', text: 'a rule refused it: ATTEMPT_NOT_FOUND' });
  const delivered = (recipients: number) =>
    command({ queue: 'gradenotices:parent', status: 'DELIVERED', result: { recipients } });
  t.equal(codeOf(delivered(0), live), 'NO_PARENTS');
  t.equal(codeOf(delivered(2), live), null);
  for (const reason of [
    'MUTED',
    'TYPE_DISABLED',
    'CHANNEL_DISABLED',
    'NO_ADDRESS',
    'NO_SUBSCRIPTION',
    'DELETED',
    'GONE',
    'ERASED',
  ])
    t.equal(codeOf(command({ status: 'SUPPRESSED', result: { reason } }), live), reason);
  t.equal(codeOf(command({ status: 'DONE' }), live), null);
});

t.test('unknown words of newer versions still have a reason of the closed list', async (t) => {
  const known = (code: ReasonCode) => Object.hasOwn(REASONS, code);
  t.ok(known(suppressionReason('toString').code));
  t.ok(known(refusalReason('AI_NEW_CODE').code));
  t.equal(refusalReason('AI_WALLET_INSUFFICIENT').code, 'WALLET_EMPTY');
});
