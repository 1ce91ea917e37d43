import t from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { coldFrontDoor, countCommands, studentCall } from '#scripts/bench/cold-front-door.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { EVENT_TAIL_CAP, EVENT_TAIL_KEEP } from '#shared/attempt/limits.ts';
import type { SaveAnswerRequest } from '#shared/generated/attempt.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { samplePaper } from '#testing/stored/sample-attempt.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
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
    attempt,
    /** Saves one answer and returns the names of the MongoDB commands that it needed. */
    async save(place: number): Promise<string[]> {
      const reply = await saveOneAnswer(deps, saveCall(attempt, place));
      if (isRejection(reply)) throw new Error(reply.rejected);
      return sent.taken();
    },
  };
}
type Tap = typeof t;

function saveCall(attempt: Pick<Attempt, '_id' | 'studentId'>, place: number) {
  const body: SaveAnswerRequest = { questionId: `question-${(place % 40) + 1}`, answer: { selectedOptionIds: ['b'] } };
  return studentCall(attempt.studentId, { body, params: { attemptId: attempt._id } });
}

t.test('a cold process reads the attempt and its paper once each before its first save', async (t) => {
  const { save } = await watchedFrontDoor(t as Tap);
  t.strictSame(await save(0), ['find', 'find', 'findAndModify']);
  t.strictSame(await save(1), ['findAndModify']);
});

t.test('a warm save needs one MongoDB command, and at most one save in twenty needs more', async (t) => {
  const { save } = await watchedFrontDoor(t as Tap);
  await save(0);
  const taken: string[][] = [];
  for (let place = 1; place <= SAVES; place++) taken.push(await save(place));
  const more = taken.filter((commands) => commands.length > 1);
  t.same(new Set(taken.filter((commands) => commands.length === 1).flat()), new Set(['findAndModify']));
  t.ok(more.length <= SAVES / 20, `${more.length} of ${SAVES} needed more than one command`);
  // Each roll of the event tail makes room for EVENT_TAIL_CAP - EVENT_TAIL_KEEP saves.
  const fits = 1 + Math.floor((SAVES - (EVENT_TAIL_CAP - 1)) / (EVENT_TAIL_CAP - EVENT_TAIL_KEEP));
  t.ok(more.length <= fits + 1 && more.length > 0, 'only saves that roll the event tail need more');
  for (const commands of more) {
    t.match(commands, ['findAndModify'], 'the first command is the single write');
    t.equal(commands.at(-1), 'commitTransaction', 'a transaction follows');
    t.ok(commands.length <= 5, commands.join());
  }
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
