import t from 'tap';
import { attempts, eventRows } from '#infra/mongo/attempt/collections.ts';
import { openMongo } from '#infra/mongo/connect.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { EVENT_TAIL_CAP, EVENT_TAIL_KEEP, EVENT_TAIL_LIMIT } from '#shared/attempt/limits.ts';
import type { SaveAnswerRequest } from '#shared/generated/attempt.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { callOf, coldFrontDoor } from '#testing/doors/in-process-door.ts';
import { samplePaper } from '#testing/stored/sample-attempt.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { countCommands } from '#testing/stores/counted-commands.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { saveOneAnswer } from './save-answer.ts';

const SAVES = 200;

/** Opens a front door whose MongoDB client records its commands, and an attempt with 40 questions. */
async function watchedFrontDoor(t: Tap) {
  const stored = await openTestMongo(t);
  const paper = samplePaper(...Array.from({ length: 40 }, () => ({})));
  const deadlineAt = new Date(Date.now() + 3_600_000);
  const attempt = await storeAttempt(
    stored,
    { answers: {}, deadlineAt, order: paper.questions.map((_, i) => i) },
    paper,
  );
  const mongo = openMongo({ url: stored.url, database: stored.database, appName: 'counted' });
  t.teardown(() => mongo.close());
  const sent = countCommands(mongo);
  const deps = coldFrontDoor(mongo);
  return {
    mongo: stored,
    attempt,
    /** Saves one answer and returns the names of the MongoDB commands that it needed. */
    async save(place: number, headers: Record<string, string> = {}): Promise<string[]> {
      const reply = await saveOneAnswer(deps, { ...saveCall(attempt, place), headers });
      if (isRejection(reply)) throw new Error(reply.rejected);
      await deps.eventTails.idle();
      return sent.taken();
    },
  };
}
type Tap = typeof t;

function saveCall(attempt: Pick<Attempt, '_id' | 'studentId'>, place: number) {
  const body: SaveAnswerRequest = { questionId: `question-${(place % 40) + 1}`, answer: { selectedOptionIds: ['b'] } };
  return callOf(body, { attemptId: attempt._id }, attempt.studentId);
}

t.test('a cold process reads the attempt and its paper once each before its first save', async (t) => {
  const { save } = await watchedFrontDoor(t as Tap);
  t.strictSame(await save(0), ['find', 'find', 'findAndModify']);
  t.strictSame(await save(1), ['findAndModify']);
});

t.test('no save of choices needs more than two MongoDB commands, and most need one', async (t) => {
  const { save } = await watchedFrontDoor(t as Tap);
  await save(0);
  const taken: string[] = [];
  for (let place = 1; place <= SAVES; place++) taken.push((await save(place)).join());
  t.same(
    new Set(taken),
    new Set(['findAndModify', 'findAndModify,insert']),
    'the second command copies events to rows',
  );
  // Each roll of the event tail makes room for EVENT_TAIL_CAP - EVENT_TAIL_KEEP saves.
  const rolls = 1 + Math.floor((SAVES - (EVENT_TAIL_CAP - 2)) / (EVENT_TAIL_CAP - EVENT_TAIL_KEEP));
  t.equal(taken.filter((commands) => commands !== 'findAndModify').length, rolls);
});

t.test('a minimal reply needs no more commands than a whole one', async (t) => {
  const { save } = await watchedFrontDoor(t as Tap);
  const minimal = { prefer: 'return=minimal' };
  t.strictSame(await save(0, minimal), ['find', 'find', 'findAndModify']);
  t.strictSame(await save(1, minimal), ['findAndModify']);
});

t.test('a save into a tail without room copies events to rows first', async (t) => {
  const { attempt, save, mongo } = await watchedFrontDoor(t as Tap);
  const [start] = attempt.events;
  const events = Array.from({ length: EVENT_TAIL_LIMIT }, (_, index) => ({
    ...start,
    seq: index + 1,
  })) as typeof attempt.events;
  await attempts(mongo).updateOne({ _id: attempt._id }, { $set: { events, eventSeq: EVENT_TAIL_LIMIT } });
  t.strictSame(await save(0), ['find', 'find', 'findAndModify', 'insert', 'findAndModify']);
  const stored = await attempts(mongo).findOne({ _id: attempt._id });
  t.equal(stored?.events.length, EVENT_TAIL_KEEP + 1);
  t.equal(await eventRows(mongo).countDocuments({ attemptId: attempt._id }), EVENT_TAIL_LIMIT - EVENT_TAIL_KEEP);
});

t.test('does not cache a missing attempt, because another process may be creating it', async (t) => {
  const stored = await openTestMongo(t);
  const deps = coldFrontDoor(stored);
  const late = { _id: 'late', studentId: 'student-1', deadlineAt: null };
  const save = () => saveOneAnswer(deps, saveCall(late, 0));
  t.strictSame(await save(), { rejected: 'ATTEMPT_NOT_FOUND' });
  await storeAttempt(stored, late, samplePaper({}));
  t.match(await save(), { status: 200 });
});

t.test(
  'only a save of a foreign or unknown attempt needs a look-up by the bare id, and a foreign one needs it once',
  async (t) => {
    const stored = await openTestMongo(t);
    const foreign = await storeAttempt(stored, { deadlineAt: null }, samplePaper({}));
    const mongo = openMongo({ url: stored.url, database: stored.database, appName: 'counted' });
    t.teardown(() => mongo.close());
    const sent = countCommands(mongo);
    const deps = coldFrontDoor(mongo);
    const refused = async (_id: string) => {
      const reply = await saveOneAnswer(deps, saveCall({ _id, studentId: 'a-stranger' }, 0));
      return { reply, commands: sent.taken() };
    };
    t.strictSame(await refused(foreign._id), { reply: { rejected: 'FORBIDDEN' }, commands: ['find', 'find'] });
    t.strictSame(await refused(foreign._id), { reply: { rejected: 'FORBIDDEN' }, commands: [] });
    for (let n = 0; n < 2; n++) {
      t.strictSame(await refused('unknown'), { reply: { rejected: 'ATTEMPT_NOT_FOUND' }, commands: ['find', 'find'] });
    }
  },
);
