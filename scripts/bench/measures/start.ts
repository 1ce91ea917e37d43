import { startAttempt } from '#api/attempt/start.ts';
import { openMongo } from '#infra/mongo/connect.ts';
import { timed } from '#scripts/bench/alternate.ts';
import { coldFrontDoor, countCommands, studentCall } from '#scripts/bench/cold-front-door.ts';
import type { BenchContext, Measure } from '#scripts/bench/context.ts';
import { startBody, startOverHttp } from '#scripts/bench/exam.ts';
import { figuresOf } from '#scripts/bench/row.ts';
import { openStage, type Stage } from '#scripts/bench/stage.ts';
import { isRejection } from '#shared/kernel/errors.ts';

const EXAM = 'bench-start';
const COUNTED_STARTS = 10;

/** Measures the start of an exam by all students at the same time, each over its own connection. */
export const measureStart: Measure = async (context) => {
  const students = context.quick ? 50 : 200;
  const stage = await openStage(context, ['web']);
  try {
    const clients = await Promise.all(Array.from({ length: students }, () => stage.connect()));
    const [first] = clients;
    if (first === undefined) throw new Error('no client');
    // First some starts one after the other: the cost of a start without concurrency.
    const alone: number[] = [];
    for (let i = 0; i < 20; i++) alone.push(await timed(() => startOverHttp(first, EXAM, `early-${i}`)));
    const latencies: number[] = [];
    const wall = await timed(() =>
      Promise.all(
        clients.map(async (client, i) => {
          latencies.push(await timed(() => startOverHttp(client, EXAM, `student-${i}`)));
          context.progress.step(latencies.length, students);
        }),
      ),
    );
    for (const client of clients) client.close();
    return [
      {
        name: `${students} students start at once`,
        unit: 'ms',
        ours: figuresOf(latencies),
        reference: null,
        against: `all started after ${(wall / 1_000).toFixed(2)} s`,
        aim: null,
        notes: [
          `one start after the other takes ${figuresOf(alone).p50.toFixed(1)} ms (median of ${alone.length}, the first ones cold)`,
          await commandsOfStarts(context, stage),
        ],
      },
    ];
  } finally {
    await stage.close();
  }
};

/** Returns a sentence with the number of MongoDB commands that a start takes. */
async function commandsOfStarts(context: BenchContext, stage: Stage): Promise<string> {
  const mongo = openMongo({ url: context.mongodbUrl, database: stage.database, appName: 'examhall-bench-count' });
  try {
    const sent = countCommands(mongo);
    const deps = coldFrontDoor(mongo);
    const perStart: string[][] = [];
    for (let i = 0; i < COUNTED_STARTS; i++) {
      const call = { body: startBody(EXAM), params: { examId: EXAM }, key: `counted-${i}` };
      const reply = await startAttempt(deps, studentCall(`counted-${i}`, call));
      if (isRejection(reply)) throw new Error(`start: ${reply.rejected}`);
      perStart.push(sent.taken());
    }
    const warm = perStart.at(-1) ?? [];
    return `MongoDB commands per start: ${perStart[0]?.length} in a cold process, then ${warm.length} (${warm.join(', ')})`;
  } finally {
    await mongo.close();
  }
}
