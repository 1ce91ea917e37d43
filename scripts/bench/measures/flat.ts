import { timed } from '#scripts/bench/alternate.ts';
import type { Measure } from '#scripts/bench/context.ts';
import { answerBody, startOverHttp, studentHeaders } from '#scripts/bench/exam.ts';
import { figuresOf } from '#scripts/bench/row.ts';
import { openStage, type Stage } from '#scripts/bench/stage.ts';
import type { AttemptKey } from '#shared/attempt/attempt.ts';
import { byOwnCommand } from './save-answer.ts';

const EXAM = 'bench-flat';
const QUESTIONS = 40;
/** Students whose saves fill the database, all at once. */
const WRITERS = 16;

/** Measures if a save takes longer on a server that has carried out many writes. */
export const measureFlat: Measure = async (context) => {
  const { quick, progress } = context;
  const [few, many, samples] = quick ? [100, 500, 40] : [1_000, 50_000, 300];
  const stage = await openStage(context, ['web']);
  try {
    const client = await stage.connect();
    const attempts: AttemptKey[] = [];
    for (let n = 0; n < WRITERS; n++) {
      const studentId = `writer-${n}`;
      attempts.push({ _id: await startOverHttp(client, EXAM, studentId), studentId });
    }
    const writers = attempts.map((attempt) => byOwnCommand(stage.mongo, attempt));
    let written = 0;
    async function writeUpTo(total: number): Promise<void> {
      await Promise.all(
        writers.map(async (write) => {
          while (written < total) {
            await write(written++);
            progress.step(written, many);
          }
        }),
      );
    }
    await saves(stage, 'warm-up', samples);
    written += samples;
    await writeUpTo(few - samples);
    const early = await saves(stage, 'early', samples);
    await writeUpTo(many - samples);
    const late = await saves(stage, 'late', samples);
    return [
      {
        name: `a save after ${many} writes`,
        unit: 'ms',
        against: `the same after ${few} writes`,
        ours: figuresOf(late),
        reference: figuresOf(early),
        aim: { side: 'most', ratio: 1.1 },
        notes: [
          `each figure is of ${samples} saves over HTTP, one after the other, of a new attempt; the writes between are saves of ${WRITERS} students`,
        ],
      },
    ];
  } finally {
    await stage.close();
  }
};

/**
 * Saves answers of a new attempt one after the other and returns the times (ms). Connects anew, because the front door closes a
 * connection that idles while the writers work.
 */
async function saves(stage: Stage, student: string, count: number): Promise<number[]> {
  const client = await stage.connect();
  const attemptId = await startOverHttp(client, EXAM, student);
  const headers = studentHeaders(student);
  const times: number[] = [];
  for (let n = 0; n < count; n++) {
    const body = JSON.stringify(answerBody(n % QUESTIONS, n % 3 === 0));
    const ms = await timed(async () => {
      const reply = await client.request('POST', `/v1/attempts/${attemptId}/answers`, headers, body);
      if (reply.status !== 200) throw new Error(`save: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
    });
    times.push(ms);
  }
  client.close();
  return times;
}
