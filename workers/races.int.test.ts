import t from 'tap';
import { saveOneAnswer } from '#api/attempt/save-answer.ts';
import { submitAttempt } from '#api/attempt/submit.ts';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommand, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Paper } from '#shared/attempt/question.ts';
import { totalsOf } from '#shared/attempt/scoring/grade-attempt.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { scriptActor, testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openChance, scaled } from '#testing/chance.ts';
import { callOf, inProcessDoor } from '#testing/doors/in-process-door.ts';
import { sampleAnswer, samplePaper } from '#testing/stored/sample-attempt.ts';
import { announcedOnce } from '#testing/stored/stored.ts';
import {
  graded,
  MIXED_PAPER,
  postGrading,
  postHandoff,
  postRelease,
  SUBMITTED,
  storeAttempt,
} from '#testing/stored/stored-attempts.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { despiteOutages, until } from '#testing/until.ts';
import { runCommand } from './run-command.ts';

const jitter = openChance((line) => t.comment(line));

/** A submitted attempt of an exam that hides its results until a release. */
const HIDDEN = { ...SUBMITTED, exam: { ...graded({ showResultMode: 'MANUAL' }).exam } } as ReturnType<typeof graded>;

/** Starts two workers of one actor, as two processes would. */
function twoWorkers(t: Parameters<typeof testWorker>[0], mongo: TestMongo, name: string, concurrency = 8) {
  return ['one', 'two'].map((workerId) =>
    testWorker(t, testKernel(mongo, { workerId }), makeActor(name, testWorkerDeps(mongo)), {
      concurrency,
      pollMs: 20,
    }),
  );
}

async function find(mongo: TestMongo, id: string): Promise<Attempt> {
  const attempt = (await attempts(mongo).findOne({ _id: id })) as Attempt | null;
  if (attempt === null) throw new Error(`attempt ${id} is gone`);
  return attempt;
}

const eventTypes = (attempt: Attempt) => attempt.events.map((event) => event.type);
const storedTotals = ({ totalScore, correctCount, wrongCount, pendingManualCount }: Attempt) => ({
  totalScore,
  correctCount,
  wrongCount,
  pendingManualCount,
});

function essays(count: number): Paper {
  const essay = { score: 2, type: 'ESSAY', options: [], scoringRule: { mode: 'ESSAY' }, answerKey: {} } as const;
  return samplePaper(...Array.from({ length: count }, () => ({ ...essay, options: [] })));
}

t.test('a handoff and a grading that race both take effect', async (t) => {
  const mongo = await openTestMongo(t);
  twoWorkers(t, mongo, 'grading');
  twoWorkers(t, mongo, 'essayhandoff');
  const rounds = Array.from({ length: 40 }, async () => {
    const attempt = await storeAttempt(mongo, SUBMITTED);
    const post = [() => postGrading(mongo, attempt), () => postHandoff(mongo, attempt)];
    await Promise.all(post.map((send) => jitter.pause(30).then(send)));
    return attempt._id;
  });
  for (const id of await Promise.all(rounds)) {
    const done = await until('graded, and the handoff applied', async () => {
      const attempt = await find(mongo, id);
      return attempt.pendingManualCount === 0 ? attempt : null;
    });
    if (done === null) throw new Error('not reached');
    t.strictSame(eventTypes(done), ['START', 'SUBMIT', 'ESSAY_GRADE_HANDOFF']);
    t.match(done, {
      totalScore: 2.5,
      correctCount: 1,
      wrongCount: 1,
      answers: { q0: { score: 1 }, q1: { score: 1.5 } },
    });
  }
});

t.test('20 concurrent handoffs lose no score, and the totals match the answers at every read', async (t) => {
  const mongo = await openTestMongo(t);
  const paper = essays(20);
  const answers = Object.fromEntries(paper.questions.map((_, n) => [`q${n}`, sampleAnswer({ text: `essay ${n}` })]));
  const totals = totalsOf(paper, answers);
  const attempt = await storeAttempt(mongo, { ...SUBMITTED, status: 'GRADED', answers, ...totals }, paper);
  const posted = paper.questions.map(({ questionId }, n) => postHandoff(mongo, attempt, { questionId, score: n / 10 }));
  await Promise.all(posted);
  twoWorkers(t, mongo, 'essayhandoff');
  let reads = 0;
  const done = await until('all handoffs applied', async () => {
    const now = await find(mongo, attempt._id);
    reads += 1;
    t.strictSame(storedTotals(now), totalsOf(paper, now.answers));
    return now.pendingManualCount === 0 ? now : null;
  });
  t.ok(reads > 1);
  t.equal(done?.totalScore, 19, '0 + 0.1 + … + 1.9');
  t.strictSame(
    Object.values(done?.answers ?? {}).map(({ score }) => score),
    paper.questions.map((_, n) => n / 10),
  );
  t.equal(done?.eventSeq, 21);
  t.equal(done?.tally.graded, 20);
});

t.test('an attempt is graded once although two commands grade it at the same time', async (t) => {
  const mongo = await openTestMongo(t);
  twoWorkers(t, mongo, 'grading');
  const hidden = { ...graded({ showResultMode: 'MANUAL' }).exam } as Attempt['exam'];
  const ids = Array.from({ length: 40 }, async (_, n) => {
    // Half of the exams hide their results: visible results have a second guard, the ids of their notices.
    const attempt = await storeAttempt(mongo, n % 2 === 0 ? SUBMITTED : { ...SUBMITTED, exam: hidden });
    // The unique key allows one grading command. The store must grade once even if two commands exist.
    const twin = {
      queue: 'grading',
      key: `twin:${attempt._id}`,
      subject: attempt._id,
      body: { attemptId: attempt._id },
    } as const;
    await Promise.all([
      postGrading(mongo, attempt),
      postCommand(mongo, newCommand({ ...twin, maxAttempts: 10, now: Date.now() - 1_000 })),
    ]);
    return attempt._id;
  });
  for (const id of await Promise.all(ids)) {
    await until('both commands are done', async () => {
      const commands = await mongo.db.collection('commands').find({ subject: id }).toArray();
      return commands.every((command) => command.status === 'DONE');
    });
    const attempt = await find(mongo, id);
    t.strictSame(eventTypes(attempt), ['START', 'SUBMIT']);
    const rows = await mongo.db.collection('attempt_notices').countDocuments({ 'body.attemptId': id });
    t.equal(rows, attempt.exam.showResultMode === 'MANUAL' ? 0 : 2);
  }
});

t.test('a grading that commits late undoes neither an earlier grading nor a handoff', async (t) => {
  const mongo = await openTestMongo(t);
  const [grading, handoff] = ['grading', 'essayhandoff'].map((name) => makeActor(name, testWorkerDeps(mongo)));
  if (grading === undefined || handoff === undefined) throw new Error('not reached');
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const twin = {
    queue: 'grading',
    key: `twin:${attempt._id}`,
    subject: attempt._id,
    body: { attemptId: attempt._id },
  } as const;
  const { command: late } = await postCommand(mongo, newCommand({ ...twin, maxAttempts: 10, now: Date.now() - 1_000 }));
  const first = await postGrading(mongo, attempt);
  const slow = scriptActor(grading, async (_run, real) => {
    const decided = await real();
    t.equal(await runCommand(testKernel(mongo), grading, first), 'done');
    const given = await postHandoff(mongo, attempt);
    t.equal(await runCommand(testKernel(mongo), handoff, given), 'done');
    return decided;
  });
  t.equal(await runCommand(testKernel(mongo), slow, late), 'done');
  const now = await find(mongo, attempt._id);
  t.strictSame(eventTypes(now), ['START', 'SUBMIT', 'ESSAY_GRADE_HANDOFF']);
  t.match(now, { totalScore: 2.5, pendingManualCount: 0, answers: { q1: { score: 1.5 } } });
});

t.test('50 concurrent submits cause one grading and one SUBMIT event, and all get the same reply', async (t) => {
  const mongo = await openTestMongo(t);
  const door = inProcessDoor(mongo, { grading: twoWorkers(t, mongo, 'grading') });
  const attempt = await storeAttempt(mongo);
  const params = { attemptId: attempt._id };
  const submits = Array.from({ length: 50 }, async () => {
    await jitter.pause(20);
    return despiteOutages(() => submitAttempt(door, callOf({ source: 'STUDENT' }, params, attempt.studentId)));
  });
  const replies = await Promise.all(submits);
  t.ok(replies.every((reply) => 'status' in reply && reply.status === 200));
  // Replies may differ only in their server time.
  const said = replies.map((reply) =>
    JSON.stringify({ ...('data' in reply ? (reply.data as object) : {}), serverTime: null }),
  );
  t.equal(new Set(said).size, 1);
  t.equal(await mongo.db.collection('commands').countDocuments({ subject: attempt._id }), 1);
  t.strictSame(eventTypes(await find(mongo, attempt._id)), ['START', 'SUBMIT']);
});

t.test('a save that races a submit is either graded or refused with ATTEMPT_LOCKED', async (t) => {
  const mongo = await openTestMongo(t);
  const door = inProcessDoor(mongo, { grading: twoWorkers(t, mongo, 'grading') });
  let [inTime, late] = [0, 0];
  const one = async (spreadMs: number) => {
    const attempt = await storeAttempt(
      mongo,
      { deadlineAt: new Date(Date.now() + 3_600_000), answers: {} },
      MIXED_PAPER,
    );
    const params = { attemptId: attempt._id };
    const save = async () => {
      await jitter.pause(spreadMs);
      const body = { questionId: 'choice', answer: { selectedOptionIds: ['a'] } };
      return saveOneAnswer(door, callOf(body, params, attempt.studentId));
    };
    const submit = async () => {
      await jitter.pause(spreadMs);
      return despiteOutages(() => submitAttempt(door, callOf({ source: 'STUDENT' }, params, attempt.studentId)));
    };
    const [saved] = await Promise.all([save(), submit()]);
    const { status, totalScore, answers } = await find(mongo, attempt._id);
    t.equal(status, 'GRADED');
    if ('rejected' in saved) {
      late += 1;
      t.equal(saved.rejected, 'ATTEMPT_LOCKED');
      t.strictSame([totalScore, answers], [0, {}]);
    } else {
      inTime += 1;
      t.equal(saved.status, 200);
      t.equal(totalScore, 1, 'an acknowledged save is graded');
    }
  };
  // Widen the random pauses each round until both sides have won: the durations of a save and a submit depend on the machine.
  for (let round = 0; round < 12 || (round < 120 && (inTime === 0 || late === 0)); round++) {
    await Promise.all(Array.from({ length: 10 }, () => one(12 + round)));
  }
  t.comment(`${inTime} saves came in time, ${late} late`);
  t.ok(inTime > 0 && late > 0, 'some saves came in time and some late');
});

t.test('an attempt that a release did not find takes the release with its grade', async (t) => {
  const mongo = await openTestMongo(t);
  const deps = testWorkerDeps(mongo);
  const [grading, releasing] = [makeActor('grading', deps), makeActor('resultsrelease', deps)];
  const run = async (actor: typeof grading, command: Command) =>
    t.equal(await runCommand(testKernel(mongo), actor, command), 'done');

  const late = `exam-${newId()}`;
  await run(releasing, await postRelease(mongo, { examId: late }));
  // The start of this attempt was decided before the release, and its insert came after the release had walked the exam.
  await run(grading, await postGrading(mongo, await storeAttempt(mongo, { ...HIDDEN, examId: late })));
  await announcedOnce(t, mongo, late, 1);

  const early = `exam-${newId()}`;
  const sitting = await postGrading(mongo, await storeAttempt(mongo, { ...HIDDEN, examId: early }));
  // The first grade is decided before the release and hides the result. Its commit is stale, so the attempt is graded again.
  const slow = scriptActor(grading, async (_run, real) => {
    const decided = await real();
    await run(releasing, await postRelease(mongo, { examId: early }));
    return decided;
  });
  await run(slow, sitting);
  await announcedOnce(t, mongo, early, 1);
});

t.test('a release that races gradings announces each attempt once', async (t) => {
  const mongo = await openTestMongo(t);
  const graders = twoWorkers(t, mongo, 'grading', 4);
  const releasers = twoWorkers(t, mongo, 'resultsrelease', 4);
  const EXAMS = scaled(6, 20);
  const STUDENTS = 10;
  for (let round = 0; round < EXAMS; round++) {
    const examId = `exam-${newId()}`;
    const sitting: Attempt[] = [];
    for (let n = 0; n < STUDENTS; n++) sitting.push(await storeAttempt(mongo, { ...HIDDEN, examId }));
    const grade = async (attempt: Attempt, n: number) => {
      await jitter.pause(40);
      const command = await postGrading(mongo, attempt);
      await graders[n % 2]?.tryRun(command);
    };
    const release = async () => {
      await jitter.pause(30);
      const command = await postRelease(mongo, { examId });
      await Promise.all(releasers.map((worker) => worker.tryRun(command)));
      return command;
    };
    const [command] = await Promise.all([release(), ...sitting.map(grade)]);
    await announcedOnce(t, mongo, examId, STUDENTS);
    const counted = (await readCommand(mongo, command))?.result as {
      queuedNotifications: number;
    };
    t.ok(counted.queuedNotifications % 2 === 0 && counted.queuedNotifications <= STUDENTS * 2);
  }
});

t.test('two concurrent releases of one exam count and announce each attempt once between them', async (t) => {
  const mongo = await openTestMongo(t);
  const releasers = twoWorkers(t, mongo, 'resultsrelease', 4);
  for (let round = 0; round < scaled(5, 20); round++) {
    const examId = `exam-${newId()}`;
    for (let n = 0; n < 12; n++) await storeAttempt(mongo, { ...graded({ showResultMode: 'MANUAL' }), examId });
    const counts = await Promise.all(
      releasers.map(async (worker) => {
        await jitter.pause(10);
        const command = await postRelease(mongo, { examId });
        await worker.tryRun(command);
        const settled = await until('done', async () => {
          const now = await readCommand(mongo, command);
          return now?.status === 'DONE' ? now : null;
        });
        return settled?.result as { updatedAttempts: number; queuedNotifications: number };
      }),
    );
    t.equal(
      counts.reduce((sum, count) => sum + count.updatedAttempts, 0),
      12,
    );
    t.equal(
      counts.reduce((sum, count) => sum + count.queuedNotifications, 0),
      24,
    );
    await announcedOnce(t, mongo, examId, 12);
  }
});
