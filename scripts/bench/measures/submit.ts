import { Redis } from 'ioredis';
import { findAttempt } from '#infra/mongo/attempt/attempts.ts';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { gradeWrites } from '#infra/mongo/attempt/grade.ts';
import { findBindingRelease, noticeWrites } from '#infra/mongo/attempt/release.ts';
import { markSubmitted } from '#infra/mongo/attempt/submit.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { claimCommand } from '#infra/mongo/mailbox/claim.ts';
import { settleCommand } from '#infra/mongo/mailbox/settle.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { applyWrites } from '#infra/mongo/writes.ts';
import { benchPaper, startOverHttp, storedAnswers, studentHeaders } from '#scripts/bench/exam.ts';
import type { HttpClient } from '#scripts/bench/http-client.ts';
import { alternate, figuresOf, type Measure, quantile, timed } from '#scripts/bench/measure.ts';
import { openStage, type Stage } from '#scripts/bench/stage.ts';
import { type Attempt, type AttemptKey, answerKeyOf, remainingSeconds } from '#shared/attempt/attempt.ts';
import { submitMetadata } from '#shared/attempt/events.ts';
import { noticesOnGrade } from '#shared/attempt/notices.ts';
import type { Paper } from '#shared/attempt/question.ts';
import { gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import { atOnce } from '#shared/kernel/pieces.ts';

const EXAM = 'bench-submit';
const WARM_UP = 10;
const BUDGET_MS = 5_000;

/** Runs `work`, and adds its time to a sum. */
type Watch = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** Measures submit to grade, through front door and grading worker, against its MongoDB calls plus one Redis round trip. */
export const measureSubmit: Measure = async (context) => {
  const stage = await openStage(context, ['web', 'grading']);
  const hop = openRedisHop(context.redisUrl);
  try {
    const client = await stage.connect();
    const paper = benchPaper();
    const mongoOnly: number[] = [];
    let student = 0;

    async function ours(): Promise<number> {
      const studentId = `student-${student++}`;
      const attemptId = await answered(stage, client, studentId, paper);
      return timed(async () => {
        const reply = await client.request(
          'POST',
          `/v1/attempts/${attemptId}/submit`,
          studentHeaders(studentId),
          '{"source":"STUDENT"}',
        );
        if (reply.status !== 200) throw new Error(`submit: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
      });
    }
    async function reference(): Promise<number> {
      const studentId = `student-${student++}`;
      const _id = await answered(stage, client, studentId, paper);
      let ms = 0;
      const watch: Watch = async (work) => {
        const from = performance.now();
        try {
          return await work();
        } finally {
          ms += performance.now() - from;
        }
      };
      await replay(stage.mongo, watch, { _id, studentId }, paper);
      mongoOnly.push(ms);
      await watch(() => hop.go());
      return ms;
    }

    const rounds = context.quick ? 15 : 150;
    const samples = await alternate(context, { ours, reference, rounds, warmUp: WARM_UP });
    client.close();
    return [
      {
        name: 'submit → graded over HTTP',
        unit: 'ms',
        against: 'its MongoDB calls and a raw Redis hop',
        ours: figuresOf(samples.ours),
        reference: figuresOf(samples.reference),
        aim: { side: 'most', ratio: 1.25 },
        notes: [
          'front door, grading worker and caller are three processes; forty answers, two notices queued in the grade’s transaction',
          `${quantile(mongoOnly.slice(WARM_UP), 0.5).toFixed(2)} ms of the reference are consecutive MongoDB calls from one process`,
        ],
      },
    ];
  } finally {
    await hop.close();
    await stage.close();
  }
};

/** Starts an attempt and stores an answer to each question, as forty saves would have done. Returns its id. */
async function answered(stage: Stage, client: HttpClient, studentId: string, paper: Paper): Promise<string> {
  const attemptId = await startOverHttp(client, EXAM, studentId);
  const answers = storedAnswers(paper);
  const answerBytes = Object.values(answers).reduce((sum, answer) => sum + answer.bytes, 0);
  const tally = { 'tally.answers': Object.keys(answers).length };
  await attempts(stage.mongo).updateOne({ _id: attemptId }, { $set: { answers, answerBytes, ...tally } });
  return attemptId;
}

/** Makes the MongoDB calls of one submit and its grading, in their order. The watch times the calls only. */
async function replay(mongo: Mongo, watch: Watch, key: AttemptKey, paper: Paper): Promise<void> {
  const submitted = await watch(() =>
    markSubmitted(mongo, {
      attempt: key,
      source: 'STUDENT',
      overdueByMs: null,
      maxAttempts: 10,
      now: Date.now(),
      budgetMs: BUDGET_MS,
    }),
  );
  if (submitted.kind !== 'submitted') throw new Error('not submitted');
  const { command } = submitted;
  const holder = { workerId: 'bench', leaseMs: 10_000 };
  const claimed = await watch(() => claimCommand(mongo, command, holder));
  const attempt = await watch(() => findAttempt(mongo, key));
  if (claimed.kind !== 'claimed' || attempt === null) throw new Error('not claimed');
  await watch(() => findBindingRelease(mongo, attempt));
  const now = new Date();
  const grading = atOnce(gradeAttempt(paper, attempt.answers));
  const graded: Attempt = { ...attempt, ...grading.totals, status: 'GRADED' };
  const notices = noticesOnGrade(graded, now);
  const left = remainingSeconds(attempt.deadlineAt, attempt.submittedAt ?? now);
  const metadata = submitMetadata({ source: 'STUDENT', totalScore: grading.totals.totalScore, remainingSeconds: left });
  const event = { type: 'SUBMIT', metadata: JSON.stringify(metadata), createdAt: now } as const;
  await watch(() =>
    inTransaction(mongo, BUDGET_MS, async (session) => {
      const queued = noticeWrites(notices, { maxAttempts: 30, now: now.getTime() });
      await applyWrites(mongo, [...gradeWrites({ attempt, grading, event }), queued], session);
      await settleCommand(mongo, claimed.command, { to: 'DONE', result: { attemptId: key._id } }, session);
    }),
  );
  const after = await watch(() => findAttempt(mongo, key));
  if (after?.answers[answerKeyOf(0)]?.score === null) throw new Error('not graded');
}

/** The cheapest round trip to another client through Redis: a push to a list that it blocks on, and a published reply. */
interface RedisHop {
  go(): Promise<void>;
  close(): Promise<void>;
}

function openRedisHop(url: string): RedisHop {
  const [list, channel] = [`bench:hop:${process.pid}`, `bench:hop:${process.pid}:back`];
  const [asking, hearing, blocking, answering] = [new Redis(url), new Redis(url), new Redis(url), new Redis(url)];
  let back: (() => void) | undefined;
  const ready = hearing.subscribe(channel);
  hearing.on('message', () => back?.());
  let open = true;
  const answerer = (async () => {
    while (open) {
      const popped = await blocking.brpop(list, 0).catch(() => null);
      if (popped !== null) await answering.publish(channel, popped[1]);
    }
  })();
  return {
    async go() {
      await ready;
      const { promise, resolve } = Promise.withResolvers<void>();
      back = resolve;
      await asking.lpush(list, 'x');
      await promise;
    },
    async close() {
      open = false;
      for (const client of [asking, hearing, blocking, answering]) client.disconnect();
      await answerer;
    },
  };
}
