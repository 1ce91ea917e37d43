import autocannon from 'autocannon';
import { startChild } from '#scripts/bench/child.ts';
import type { Measure } from '#scripts/bench/context.ts';
import { answerBody, studentHeaders } from '#scripts/bench/exam.ts';
import { processorMs } from '#scripts/bench/processor.ts';
import { figuresOf } from '#scripts/bench/row.ts';
import { benchSitting } from '#scripts/bench/sitting.ts';
import { freePort } from '#scripts/services/port.ts';

const AT_ONCE = 8;
const SAVES = 1_000;

/** Measures the processor time of the front door for a save, on a double of MongoDB that answers at once. */
export const measureSaveCpu: Measure = async ({ folder, progress, quick }) => {
  const [mongodb, web] = [await freePort(), await freePort()];
  const start = (name: string, port: number) => {
    const env = {
      ...process.env,
      PORT: String(port),
      MONGODB_URL: `mongodb://127.0.0.1:${mongodb}/?replicaSet=double`,
    };
    const args = [`scripts/bench/servers/${name}.ts`];
    return startChild({ name, args, env, readyWhen: 'bench server is ready', folder });
  };
  const double = await start('mongodb-double', mongodb);
  try {
    const door = await start('save-door', web);
    try {
      const perSave: number[] = [];
      const [rounds, warmUp] = quick ? [2, 1] : [12, 4];
      for (let round = 0; round < warmUp + rounds; round++) {
        const from = processorMs(door.pid);
        await saves(web);
        if (round >= warmUp) perSave.push((processorMs(door.pid) - from) / SAVES);
        progress.step(round + 1, warmUp + rounds);
      }
      return [
        {
          name: 'processor time of the front door for a save',
          unit: 'ms',
          against: `MongoDB is a double that answers at once`,
          aim: null,
          ours: figuresOf(perSave),
          reference: null,
          notes: [
            `${AT_ONCE} connections, 40 questions, all answered; rounds of ${SAVES} saves, the second figure is the dearest round`,
          ],
        },
      ];
    } finally {
      await door.stop();
    }
  } finally {
    await double.stop();
  }
};

async function saves(port: number): Promise<void> {
  const { attempt } = benchSitting();
  const result = await autocannon({
    url: `http://127.0.0.1:${port}/v1/attempts/${attempt._id}/answers`,
    connections: AT_ONCE,
    amount: SAVES,
    method: 'POST',
    headers: { 'content-type': 'application/json', ...studentHeaders(attempt.studentId) },
    body: JSON.stringify(answerBody(3, true)),
  });
  if (result.errors > 0 || result.non2xx > 0) throw new Error(`${result.errors} errors, ${result.non2xx} refused`);
}
