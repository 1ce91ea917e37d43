import { setTimeout as delay } from 'node:timers/promises';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { storeRelease } from '#infra/mongo/attempt/release.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { openDoorbells } from '#infra/redis/doorbell.ts';
import { residentMiB } from '#scripts/bench/child.ts';
import { type BenchContext, type Measure, quietLog } from '#scripts/bench/context.ts';
import { benchPaper, startOverHttp, storedAnswers } from '#scripts/bench/exam.ts';
import { openStage, type Stage } from '#scripts/bench/stage.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Release } from '#shared/attempt/release.ts';
import { gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import { newId } from '#shared/kernel/ids.ts';
import { atOnce } from '#shared/kernel/pieces.ts';

/** Aimed attempts a second. */
const AIMED_RATE = 400;
const EXAM = 'bench-release';
const BATCH = 500;
const SAMPLE_MS = 50;
const SAMPLES_PER_POLL = 4;
const GIVE_UP_MS = 20 * 60_000;

/** Measures the release of a whole cohort of graded attempts by the real worker: its duration, and the growth of its memory. */
export const measureRelease: Measure = async (context) => {
  const cohort = context.quick ? 1_000 : 10_000;
  const stage = await openStage(context, ['web', 'resultsrelease']);
  const doorbells = openDoorbells({ redisUrl: context.redisUrl, log: quietLog });
  try {
    await storeCohort(stage, cohort, context);
    const body: Release = { examId: EXAM, organizationId: null, releasedAt: new Date(), sourceEventId: newId() };
    const from = performance.now();
    const { command } = await storeRelease(stage.mongo, body, { maxAttempts: 10, now: Date.now(), budgetMs: 5_000 });
    void doorbells.ring(command, 0);

    const memory: number[] = [];
    const pid = stage.processes.get('resultsrelease')?.pid ?? 0;
    for (let settled = false; !settled; ) {
      for (let sample = 0; sample < SAMPLES_PER_POLL; sample++) {
        memory.push(residentMiB(pid));
        await delay(SAMPLE_MS);
      }
      // A server that is busy with the release may fail one poll; the next poll shows the state.
      const now = await readCommand(stage.mongo, command).catch(() => null);
      settled = now?.status === 'DONE';
      const progress = (now?.progress ?? {}) as { updatedAttempts?: number };
      context.progress.step(cohort + (settled ? cohort : (progress.updatedAttempts ?? 0)), 2 * cohort);
      if (now?.status === 'DEAD' || performance.now() - from > GIVE_UP_MS) throw new Error('the release did not end');
    }
    const seconds = (performance.now() - from) / 1_000;
    const [first = 0] = memory;
    const half = Math.max(...memory.slice(0, Math.ceil(memory.length / 2)));
    const late = Math.max(...memory.slice(Math.ceil(memory.length / 2)));
    const memoryNote =
      `resident memory of the worker, MiB: ${first.toFixed(0)} at the start, ${Math.max(half, late).toFixed(0)} at the peak, ` +
      `${memory.at(-1)?.toFixed(0)} at the end`;
    return [
      {
        name: `release of ${cohort} attempts`,
        unit: 's',
        ours: { p50: seconds, p99: seconds },
        reference: { p50: cohort / AIMED_RATE, p99: cohort / AIMED_RATE },
        against: `the aimed ${AIMED_RATE} attempts/s`,
        aim: { side: 'most', ratio: 1 },
        notes: [`${Math.round(cohort / seconds)} attempts/s, two notices each`, memoryNote],
      },
      {
        name: 'memory in the second half of the release',
        unit: 'MiB',
        ours: { p50: late, p99: late },
        reference: { p50: half, p99: half },
        against: 'peak of the first half',
        aim: { side: 'most', ratio: 1.25 },
        notes: [],
      },
    ];
  } finally {
    await doorbells.close();
    await stage.close();
  }
};

/** Stores copies of one attempt that was started through the front door, graded, with results hidden until the release. */
async function storeCohort(stage: Stage, cohort: number, context: BenchContext): Promise<void> {
  const client = await stage.connect();
  const firstId = await startOverHttp(client, EXAM, 'student-first');
  client.close();
  const started = (await attempts(stage.mongo).findOne({ _id: firstId })) as Attempt | null;
  if (started === null) throw new Error('the first attempt is missing');
  await attempts(stage.mongo).deleteOne({ _id: firstId });
  const paper = benchPaper();
  const grading = atOnce(gradeAttempt(paper, storedAnswers(paper)));
  const answers = Object.fromEntries(
    Object.entries(storedAnswers(paper)).map(([key, answer]) => [key, { ...answer, ...grading.answers[key] }]),
  );
  const exam = { ...started.exam, showResultMode: 'MANUAL' } as const;
  const common: Attempt = { ...started, ...grading.totals, answers, exam, status: 'GRADED', submittedBy: 'STUDENT' };
  for (let stored = 0; stored < cohort; stored += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, cohort - stored) }, (_, index) => {
      const _id = newId();
      return {
        ...common,
        _id,
        studentId: `student-${stored + index}`,
        startKeys: [_id],
        stamp: _id,
        submittedAt: new Date(),
      };
    });
    await attempts(stage.mongo).insertMany(batch);
    context.progress.step(stored, 2 * cohort);
  }
}
