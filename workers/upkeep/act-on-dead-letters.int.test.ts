import t, { type Test } from 'tap';
import { generations } from '#infra/mongo/classifier/collections.ts';
import { tombstoneId } from '#infra/mongo/erased-persons.ts';
import { COMMANDS, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { deadGroups } from '#infra/mongo/mailbox/dead-groups.ts';
import {
  chosenLetters,
  findCommand,
  firstPlace,
  letterPage,
  lettersAfter,
  replayDead,
} from '#infra/mongo/mailbox/dead-letters.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { queueDepths } from '#infra/mongo/mailbox/queue-depths.ts';
import { type BulkAct, findBulk, listBulks, previewBulk, stopBulk } from '#infra/mongo/operations/bulk-acts.ts';
import { actsOnLetter } from '#infra/mongo/operations/dead-acts.ts';
import { readTrace } from '#infra/mongo/operations/trace.ts';
import { OPERATOR_AUDIT, operatorAudit, verifyAudit } from '#infra/mongo/operator-audit.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { accountNoticeOrder } from '#shared/auth/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { bulkView, MAX_DUE } from '#shared/operations/bulk-act.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { graded, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { die, OPERATOR, postBulkAct, storeDeadGrading } from '#testing/stored/stored-dead-letters.ts';
import { postSettlement } from '#testing/stored/stored-model-work.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { actOnDeadLetters } from './act-on-dead-letters.ts';

const BY = () => ({ ...OPERATOR, now: Date.now() });

/** Opens a database with dead gradings of one cause, and runs bulk acts in it. `between` is called after each stored place. */
async function open(t: Test, letters: number, options: Parameters<typeof actOnDeadLetters>[2] = {}) {
  const mongo = await openTestMongo(t);
  const dead: Command[] = [];
  for (let n = 0; n < letters; n++) dead.push(await storeDeadGrading(mongo));
  dead.sort((a, b) => (a._id < b._id ? -1 : 1));
  const run = (act: BulkAct, between: (passed: number) => Promise<unknown> = async () => undefined) => {
    const deps = testWorkerDeps(mongo);
    let passed = 0;
    const actor = makeActor('upkeep', deps);
    const handlers = {
      ...actor.handlers,
      'upkeep:deadletters': (run: Parameters<typeof actOnDeadLetters>[1]) => {
        const checkpoint: typeof run.checkpoint = async (progress, effects) => {
          await run.checkpoint(progress, effects);
          passed += 1;
          await between(passed);
        };
        return actOnDeadLetters(deps, { ...run, checkpoint }, options);
      },
    };
    return runCommand(testKernel(mongo), { ...actor, handlers }, act);
  };
  const audited = async (wanted: string) =>
    (await operatorAudit(mongo).find({}).toArray()).filter(({ action }) => action === wanted).length;
  const view = async ({ _id }: BulkAct) => {
    const found = await findBulk(mongo, _id);
    return found === null ? null : bulkView(found);
  };
  return { mongo, dead, run, audited, view };
}

t.test('a bulk replay takes each letter of its filter once, and none that died after the request', async (t) => {
  const { mongo, dead, run, audited, view } = await open(t, 5);
  const other = await storeDeadGrading(mongo, 'another cause');
  const cause = 'Error: the disk is full';
  t.match(await previewBulk(mongo, { act: 'replay', filter: { cause }, chargeSuperseded: false }, Date.now()), {
    counted: 5,
    groups: [{ fingerprint: cause }],
  });
  const act = await postBulkAct(mongo, { filter: { cause } });
  t.match(await view(act), { state: 'WAITING', counted: 5, done: 0 });
  const late = await storeDeadGrading(mongo);
  await die(mongo, late._id, 'the disk is full', new Date(Date.now() + 60_000));
  const first = dead[0]?._id ?? '';
  const result = await run(act, async (passed) => {
    if (passed !== 2) return;
    await die(mongo, first, 'the disk is full', new Date(Date.now() + 60_000));
    t.match(await view(act), { state: 'RUNNING', done: 2 });
  });
  t.equal(result, 'done');
  t.match(await view(act), { state: 'DONE', done: 5, skipped: 0, refused: 0 });
  t.match(await findCommand(mongo, first), { status: 'DEAD', replays: 1 }, 'it died again and is not taken twice');
  for (const { _id } of dead.slice(1)) t.match(await findCommand(mongo, _id), { status: 'PENDING', replays: 1 });
  t.match(await findCommand(mongo, late._id), { status: 'DEAD', replays: 0 }, 'it died after the request');
  t.match(await findCommand(mongo, other._id), { status: 'DEAD', replays: 0 });
  t.equal(await audited('dead.replay'), 5);
  t.match(await operatorAudit(mongo).find({ commandId: act._id }).sort({ _id: 1 }).toArray(), [
    { action: 'dead.bulk-begin', ...OPERATOR, detail: { act: 'replay', counted: 5 } },
    { action: 'dead.bulk-end', ...OPERATOR, detail: { counted: 5, done: 5, skipped: 0, refused: 0, stopped: 'no' } },
  ]);
  t.match(await verifyAudit(mongo, null), { fault: null });
});

t.test('bulk acts that overlap, and a single replay meanwhile, take each letter once', async (t) => {
  const { mongo, dead, run, audited, view } = await open(t, 8);
  const [one, other] = [await postBulkAct(mongo), await postBulkAct(mongo, { operator: 'op-2' })];
  const last = dead.at(-1);
  if (last === undefined) throw new Error('there is no letter');
  const single = async (passed: number) => passed === 1 && (await replayDead(mongo, last, BY()));
  await Promise.all([run(one, single), run(other)]);
  const [first, second] = [await view(one), await view(other)];
  t.match(
    [first, second],
    [
      { state: 'DONE', counted: 8 },
      { state: 'DONE', counted: 8 },
    ],
  );
  const done = (first?.done ?? 0) + (second?.done ?? 0);
  t.ok(done === 7 || done === 8, `${done} replayed in bulk, and the rest singly`);
  t.equal(await audited('dead.replay'), 8);
  for (const { _id } of dead) t.match(await findCommand(mongo, _id), { status: 'PENDING', replays: 1 });
});

t.test('a stopped bulk act ends before its next letter, once', async (t) => {
  const { mongo, dead, run, audited, view } = await open(t, 4);
  const act = await postBulkAct(mongo, { act: 'drop' });
  t.equal(await run(act, async (passed) => passed === 2 && t.ok(await stopBulk(mongo, act, BY()))), 'done');
  t.match(await view(act), { state: 'STOPPED', done: 2, stoppedBy: OPERATOR.operator });
  t.equal(await stopBulk(mongo, act, BY()), false, 'it has ended');
  t.equal(await audited('dead.drop'), 2);
  t.equal(await audited('dead.bulk-stop'), 1);
  t.notOk('letter' in ((await findCommand(mongo, dead[3]?._id ?? '')) ?? {}));
  const never = await postBulkAct(mongo, { act: 'drop' });
  t.equal(await stopBulk(mongo, never, BY()), true);
  t.match(await view(never), { state: 'STOPPING' });
  t.equal(await run(never), 'done');
  t.match(await view(never), { state: 'STOPPED', done: 0 });
  t.strictSame(
    (await listBulks(mongo, 10)).map(({ _id }) => _id),
    [never._id, act._id],
  );
});

t.test('a bulk acknowledgement ends the alarm and counts only unmarked letters', async (t) => {
  const { mongo, run, view } = await open(t, 3);
  const depth = async () => (await queueDepths(mongo, Date.now(), [])).find(({ queue }) => queue === 'grading');
  t.match(await depth(), { dead: 3, acknowledged: 0 });
  const act = await postBulkAct(mongo, { act: 'ack' });
  t.equal(await run(act), 'done');
  t.match(await view(act), { counted: 3, done: 3 });
  t.match(await depth(), { dead: 0, acknowledged: 3 });
  t.match((await deadGroups(mongo)).groups, [{ count: 3, acknowledged: 3 }]);
  const again = await postBulkAct(mongo, { act: 'ack' });
  t.equal(await run(again), 'done');
  t.match(await view(again), { counted: 0, done: 0, skipped: 0 });
});

t.test('a bulk replay waits while its queue has many due commands', async (t) => {
  const { mongo, run, view } = await open(t, 1);
  const about = { queue: 'grading', subject: 'a test', body: { attemptId: 'a' }, maxAttempts: 10 } as const;
  const due = Array.from({ length: MAX_DUE }, () => newCommand({ ...about, key: newId(), now: Date.now() - 1_000 }));
  await mailboxOf(mongo, 'grading').insertMany(due);
  const act = await postBulkAct(mongo);
  t.equal(await run(act), 'snoozed');
  t.match(await view(act), { state: 'RUNNING', done: 0, waitsFor: 'grading' });
  await mailboxOf(mongo, 'grading').deleteMany({ subject: 'a test' });
  await mailboxOf(mongo, 'upkeep:deadletters').updateOne({ _id: act._id }, { $set: { nextRunAt: new Date(0) } });
  t.equal(await run(act), 'done');
  t.match(await view(act), { state: 'DONE', done: 1, waitsFor: null });
});

t.test('a bulk replay refuses superseded settlements without consent', async (t) => {
  const { mongo, run, view } = await open(t, 0);
  const settlement = await postSettlement(mongo);
  await generations(mongo).updateOne({ _id: settlement.subject }, { $set: { closed: 'SUPERSEDED' } });
  await die(mongo, settlement._id, 'the wallet is empty');
  const other = await postSettlement(mongo);
  await die(mongo, other._id, 'the wallet is empty');
  const preview = (chargeSuperseded: boolean, wanted: 'replay' | 'drop' = 'replay') =>
    previewBulk(mongo, { act: wanted, filter: { queue: 'settlement' }, chargeSuperseded }, Date.now());
  t.match(await preview(false), { counted: 1, superseded: 1, groups: [{ count: 2 }] }, 'as the act will do');
  t.match(await preview(true), { counted: 2, superseded: 0 });
  t.match(await preview(false, 'drop'), { counted: 2, superseded: 0 });
  const act = await postBulkAct(mongo, { filter: { queue: 'settlement' } });
  t.equal(await run(act), 'done');
  t.match(await view(act), { counted: 2, done: 1, refused: 1 });
  t.match(await findCommand(mongo, settlement._id), { status: 'DEAD' });
  const consented = await postBulkAct(mongo, { filter: { queue: 'settlement' }, chargeSuperseded: true });
  t.equal(await run(consented), 'done');
  t.match(await view(consented), { done: 1, refused: 0 });
  t.match(await findCommand(mongo, settlement._id), { status: 'PENDING', body: { chargeSuperseded: true } });
});

t.test('requests with one key are one act, and another request with the key is refused', async (t) => {
  const { mongo, audited } = await open(t, 2);
  const key = newId();
  const acts = await Promise.all(Array.from({ length: 5 }, () => postBulkAct(mongo, { key })));
  t.equal(new Set(acts.map(({ _id }) => _id)).size, 1);
  t.equal(await audited('dead.bulk-begin'), 1);
});

t.test('a walk over pages meets each letter once while others are acted on', async (t) => {
  const { mongo, dead } = await open(t, 5);
  const seen: string[] = [];
  for (let place = { queue: 'grading', after: '' } as Parameters<typeof letterPage>[2] | null; place !== null; ) {
    const page = await letterPage(mongo, {}, place, { limit: 2 });
    seen.push(...page.letters.map(({ _id }) => _id));
    place = page.next;
    const [first] = page.letters;
    if (first !== undefined) t.ok(await replayDead(mongo, first, BY()));
  }
  t.strictSame(
    seen,
    dead.map(({ _id }) => _id),
  );
});

t.test('a bulk act for a person is named by a digest, and an erasure lets it end', async (t) => {
  const { mongo, run, view } = await open(t, 0);
  const person = `account-${newId()}`;
  const notice = { eventId: newId(), accountId: person, event: 'PASSWORD_SET', at: new Date() } as const;
  const command = newCommand({ ...accountNoticeOrder(notice), maxAttempts: 3, now: Date.now() });
  await mailboxOf(mongo, 'accountnotices').insertOne(command);
  await die(mongo, command._id, 'the receiver refuses it');
  const act = await postBulkAct(mongo, { filter: { subject: person } });
  t.match(await erasePerson(mongo, person, BY()), { kind: 'erased' });
  t.equal(await findCommand(mongo, command._id), null);
  t.equal(await run(act), 'done');
  t.match(await view(act), { state: 'DONE', done: 0 });
  const lines = await operatorAudit(mongo).find({ commandId: act._id }).sort({ _id: 1 }).toArray();
  t.match(lines, [{ action: 'dead.bulk-begin' }, { action: 'dead.bulk-end' }]);
  for (const { subject } of lines) t.equal(subject, await tombstoneId(mongo, person));
  for (const name of [COMMANDS, OPERATOR_AUDIT])
    t.notOk(JSON.stringify(await mongo.db.collection(name).find({}).toArray()).includes(person), name);
});

t.test(
  'a dead bulk act for an attempt survives the erasure of its student, and ends once it is replayed',
  async (t) => {
    const { mongo, run, view } = await open(t, 0);
    const attempt = await storeAttempt(mongo, graded());
    const act = await postBulkAct(mongo, { filter: { subject: attempt._id } });
    await die(mongo, act._id, 'the disk is full');
    t.match(await erasePerson(mongo, attempt.studentId, BY()), { kind: 'erased' });
    const letter = await findBulk(mongo, act._id);
    if (letter === null) throw new Error('the act is gone');
    t.ok(await replayDead(mongo, letter, BY()));
    t.equal(await run(act), 'done');
    t.match(await view(act), { state: 'DONE', done: 0 });
    const lines = await operatorAudit(mongo).find({ commandId: act._id }).sort({ _id: 1 }).toArray();
    t.match(lines, [{ action: 'dead.bulk-begin' }, { action: 'dead.replay' }, { action: 'dead.bulk-end' }]);
  },
);

t.test('each act on a notice to the owner of an account names the owner by a digest', async (t) => {
  const { mongo, run } = await open(t, 0);
  const person = `account-${newId()}`;
  const notice = { eventId: newId(), accountId: person, event: 'PASSWORD_SET', at: new Date() } as const;
  const command = newCommand({ ...accountNoticeOrder(notice), maxAttempts: 3, now: Date.now() });
  await mailboxOf(mongo, 'accountnotices').insertOne(command);
  await die(mongo, command._id, 'the receiver refuses it');
  t.equal(await run(await postBulkAct(mongo, { filter: { subject: person } })), 'done');
  const replayed = await findCommand(mongo, command._id);
  t.match(replayed, { status: 'PENDING', replays: 1 });
  if (replayed === null) throw new Error('the notice is gone');
  t.match(await actsOnLetter(mongo, replayed), [{ action: 'dead.replay', subject: await tombstoneId(mongo, person) }]);
  const trace = await readTrace(mongo, { by: 'user', value: person }, { now: Date.now(), redis: 'up' });
  const acts = trace?.lines.filter(({ kind }) => kind === 'act').map(({ state }) => state);
  t.strictSame(acts?.sort(), ['dead.bulk-begin', 'dead.bulk-end', 'dead.replay']);
});

t.test('a count of a large pile reads a bounded number of letters, and states it', async (t) => {
  const { mongo } = await open(t, 5);
  await storeDeadGrading(mongo, 'another cause');
  t.match(await deadGroups(mongo), { more: false });
  const bounded = await deadGroups(mongo, {}, 3);
  t.match(bounded, { more: true });
  t.equal(
    bounded.groups.reduce((sum, { count }) => sum + count, 0),
    3,
  );
  t.match(await deadGroups(mongo, { cause: 'Error: another cause' }), { groups: [{ count: 1 }], more: false });
  t.match(await deadGroups(mongo, { queue: 'settlement' }, 3), { groups: [], more: false });
});

t.test(
  'a bulk act finds a rare cause behind many letters in bounded steps, and goes on from the last one',
  async (t) => {
    const { mongo, dead, run, view } = await open(t, 7, { read: 2 });
    const rare = await storeDeadGrading(mongo, 'a rare cause');
    const filter = { queue: 'grading', cause: 'Error: a rare cause' } as const;
    const { letters, readTo } = await lettersAfter(mongo, filter, firstPlace(filter), { limit: 10, read: 2 });
    t.strictSame([letters, readTo], [[], dead[1]?._id], 'a step ends at the last letter that it may read');

    const act = await postBulkAct(mongo, { filter });
    const killed = await run(act, async (passed) => {
      if (passed === 2) throw new Error('the worker is gone');
    });
    t.equal(killed, 'retried');
    t.match((await findBulk(mongo, act._id))?.progress, { after: dead[3]?._id, done: 0 });
    await mailboxOf(mongo, 'upkeep:deadletters').updateOne({ _id: act._id }, { $set: { nextRunAt: new Date(0) } });
    const places: (string | undefined)[] = [];
    t.equal(await run(act, async () => places.push((await findBulk(mongo, act._id))?.progress?.after)), 'done');
    t.strictSame(places, [dead[5]?._id, rare._id], 'no letter is read twice');
    t.match(await view(act), { state: 'DONE', done: 1, skipped: 0 });
    t.match(await findCommand(mongo, rare._id), { status: 'PENDING', replays: 1 });
    t.equal(await mailboxOf(mongo, 'grading').countDocuments({ status: 'DEAD' }), 7);
  },
);

t.test('a bulk act is stopped between steps that find no letter', async (t) => {
  const { mongo, dead, run, view } = await open(t, 7, { read: 2 });
  const act = await postBulkAct(mongo, { filter: { queue: 'grading', cause: 'Error: none has it' } });
  t.equal(await run(act, async () => stopBulk(mongo, act, BY())), 'done');
  t.match(await view(act), { state: 'STOPPED', done: 0 });
  t.equal((await findBulk(mongo, act._id))?.progress?.after, dead[1]?._id);
});

t.test(
  'a page of a rare cause ends after a bounded number of steps, with the place at which the next one begins',
  async (t) => {
    const { mongo, dead } = await open(t, 12);
    const rare = await storeDeadGrading(mongo, 'a rare cause');
    const filter = { queue: 'grading', cause: 'Error: a rare cause' } as const;
    const first = await letterPage(mongo, filter, firstPlace(filter), { limit: 5, read: 1 });
    t.strictSame(first, { letters: [], next: { queue: 'grading', after: dead[9]?._id } });
    const second = await letterPage(mongo, filter, first.next ?? firstPlace(filter), { limit: 5, read: 1 });
    t.strictSame([second.letters.map(({ _id }) => _id), second.next], [[rare._id], null]);
    const chosen = await chosenLetters(mongo, filter, { limit: 5, read: 1 });
    t.strictSame(
      chosen.map(({ _id }) => _id),
      [rare._id],
      'a choice of letters goes on over the pages',
    );
  },
);
