import { setTimeout as delay } from 'node:timers/promises';
import type { BenchContext, Measure } from '#scripts/bench/context.ts';
import type { HttpClient } from '#scripts/bench/http-client.ts';
import { openFakeModel } from '#scripts/bench/model-servers.ts';
import { figuresOf } from '#scripts/bench/row.ts';
import { openStage } from '#scripts/bench/stage.ts';

const ANSWER_MS = 100;
const AT_ONCE = 5;
const BATCH = 5;
/** Poll interval. The job stores its own start and end, and frequent polls would take database time from the job. */
const POLL_MS = 250;
const TUTOR = { 'x-actor-id': 'teacher-1', 'x-actor-role': 'TEACHER', 'x-organization-id': 'org-1' };

/** Measures a job against a model that takes 100 ms for each answer. All further time is the product's. */
export const measureClassify: Measure = async (context) => {
  const questions = context.quick ? 200 : 1_000;
  const model = await openFakeModel(context, ANSWER_MS);
  const env = {
    ...model.env,
    AI_CLASSIFIER_WORKER_ENABLED: '1',
    AI_CLASSIFIER_BATCH_CONCURRENCY: String(AT_ONCE),
  };
  const stage = await openStage(context, ['web', 'classifier'], env);
  const client = await stage.connect();
  try {
    // Warm-up for connections, caches and the JIT.
    await runJob(client, 50, 'warm-up', context);
    const took: number[] = [];
    for (let round = 0; round < (context.quick ? 1 : 3); round++) {
      took.push(await runJob(client, questions, `round-${round}`, context));
    }
    const ideal = (questions / BATCH / AT_ONCE) * ANSWER_MS;
    return [
      {
        name: `a job of ${questions} questions`,
        unit: 'ms',
        ours: figuresOf(took),
        reference: { p50: ideal, p99: ideal },
        against: `the model's own time, ${AT_ONCE} at once`,
        aim: { side: 'most', ratio: 1.08 },
        notes: [
          `from the claim to COMPLETED; batches of ${BATCH}, one commit for each; the model answers after ${ANSWER_MS} ms`,
        ],
      },
    ];
  } finally {
    client.close();
    await stage.close();
    await model.close();
  }
};

interface Job {
  id: string;
  status: string;
  progress: { processed: number; succeeded: number };
  startedAt: string | null;
  finishedAt: string | null;
}

/** Runs a job and returns the milliseconds from its claim to its end, by the times that the job stores. */
async function runJob(client: HttpClient, questions: number, name: string, context: BenchContext): Promise<number> {
  const questionIds = Array.from({ length: questions }, (_, n) => `${name}-${n}`);
  const body = JSON.stringify({ questionIds, fields: ['topic', 'difficulty'] });
  let job = jobOf(await client.request('POST', '/v1/ai-classifier/jobs', TUTOR, body), 201);
  while (job.finishedAt === null) {
    await delay(POLL_MS);
    job = jobOf(await client.request('GET', `/v1/ai-classifier/jobs/${job.id}`, TUTOR), 200);
    context.progress.step(job.progress.processed, questions);
  }
  if (job.status !== 'COMPLETED' || job.progress.succeeded !== questions || job.startedAt === null) {
    throw new Error(`the job ended ${job.status} with ${job.progress.succeeded} of ${questions}`);
  }
  return Date.parse(job.finishedAt) - Date.parse(job.startedAt);
}

function jobOf(reply: { status: number; body: Buffer }, status: number): Job {
  if (reply.status !== status) throw new Error(`job: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
  return (JSON.parse(reply.body.toString()) as { data: { job: Job } }).data.job;
}
