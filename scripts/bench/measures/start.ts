import { startOverHttp } from '#scripts/bench/exam.ts';
import { figuresOf, type Measure, timed } from '#scripts/bench/measure.ts';
import { openStage } from '#scripts/bench/stage.ts';

const EXAM = 'bench-start';

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
          context.progress.reach(latencies.length, students);
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
        ],
      },
    ];
  } finally {
    await stage.close();
  }
};
