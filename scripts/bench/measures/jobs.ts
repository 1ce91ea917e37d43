import BeeQueue from 'bee-queue';
import type { Log } from '#infra/log/log.ts';
import { openDoorbells } from '#infra/redis/doorbell.ts';
import { answerDoorbell } from '#infra/redis/doorbell-listener.ts';
import { alternate, type Measure, ratesOf } from '#scripts/bench/measure.ts';
import { peer } from '#scripts/bench/peers.ts';

const CONCURRENCY = 10;

const silent = (): void => undefined;
const quietLog: Log = {
  debug: silent,
  info: silent,
  warn: silent,
  error: silent,
  fatal: silent,
  child: () => quietLog,
};

interface BullQueue {
  add(name: string, data: unknown): Promise<unknown>;
  obliterate(options: { force: true }): Promise<unknown>;
  waitUntilReady(): Promise<unknown>;
  close(): Promise<unknown>;
}
interface BullConnection {
  readonly connection: { readonly host: string; readonly port: number };
}
interface BullMq {
  Queue: new (name: string, options: BullConnection) => BullQueue;
  Worker: new (
    name: string,
    run: () => Promise<void>,
    options: BullConnection & { concurrency: number },
  ) => Pick<BullQueue, 'waitUntilReady' | 'close'>;
}

/** One queue for no-op jobs: `send` adds a job, and `onJob` is called for each job that a consumer receives. */
interface JobPath {
  send(id: string): Promise<unknown>;
  close(): Promise<unknown>;
}
type OpenJobPath = (redisUrl: string, name: string, onJob: () => void) => Promise<JobPath>;

/** Measures no-op jobs per second, ten at a time: the doorbell against complete job queues. */
export const measureJobs: Measure = async (context) => {
  const jobs = context.quick ? 500 : 5_000;
  let queues = 0;
  const rate = (open: OpenJobPath) => () => {
    queues += 1;
    return jobsPerSecond(open, context.redisUrl, `bench-${process.pid}-${queues}`, jobs);
  };
  const against = async (open: OpenJobPath) => {
    const sides = { ours: rate(doorbell), reference: rate(open) };
    const rates = await alternate(context, { ...sides, rounds: context.quick ? 2 : 7, warmUp: 1 });
    return { unit: '/s', ours: ratesOf(rates.ours), reference: ratesOf(rates.reference) } as const;
  };
  return [
    {
      ...(await against(beeQueue)),
      name: 'no-op jobs, concurrency 10',
      against: 'bee-queue, stock',
      aim: { side: 'least', ratio: 0.9 },
      notes: ['sender and consumer in one process; p99 is the slowest round'],
    },
    {
      ...(await against(bullMq)),
      name: 'no-op jobs, concurrency 10 (2)',
      against: 'BullMQ, stock',
      aim: { side: 'least', ratio: 1 },
      notes: [],
    },
  ];
};

/** Returns the rate from the first job sent to the last one done. */
async function jobsPerSecond(open: OpenJobPath, redisUrl: string, name: string, jobs: number): Promise<number> {
  const finished = Promise.withResolvers<void>();
  let done = 0;
  const path = await open(redisUrl, name, () => {
    done += 1;
    if (done === jobs) finished.resolve();
  });
  try {
    const from = performance.now();
    let sent = 0;
    const sender = async () => {
      while (sent < jobs) await path.send(`job-${sent++}`);
    };
    await Promise.all([...Array.from({ length: CONCURRENCY }, sender), finished.promise]);
    return jobs / ((performance.now() - from) / 1_000);
  } finally {
    await path.close();
  }
}

const doorbell: OpenJobPath = async (redisUrl, queue, onJob) => {
  // A long limit: a pause of this machine must not count as a lost ring.
  const bells = openDoorbells({ redisUrl, log: quietLog, boundMs: 5_000 });
  const listener = answerDoorbell({ redisUrl, log: quietLog, queue, concurrency: CONCURRENCY }, async ({ id }) => {
    if (id !== 'first') onJob();
  });
  while (!(await bells.ring({ queue, _id: 'first', key: 'first' }, 0)))
    await new Promise((resolve) => setTimeout(resolve, 10));
  return {
    async send(id) {
      if (!(await bells.ring({ queue, _id: id, key: id }, 0))) throw new Error('a ring was lost');
    },
    close: () => Promise.all([bells.close(), listener.close(1_000)]),
  };
};

const beeQueue: OpenJobPath = async (redisUrl, name, onJob) => {
  const queue = new BeeQueue<{ id: string }>(name, { redis: redisUrl } as BeeQueue.QueueSettings);
  await queue.ready();
  queue.process(CONCURRENCY, async () => onJob());
  return { send: (id) => queue.createJob({ id }).save(), close: () => queue.close(1_000) };
};

const bullMq: OpenJobPath = async (redisUrl, name, onJob) => {
  const { hostname: host, port } = new URL(redisUrl);
  const connection = { host, port: Number(port || 6_379) };
  const { Queue, Worker } = await peer<BullMq>('bullmq');
  const queue = new Queue(name, { connection });
  const worker = new Worker(name, async () => onJob(), { connection, concurrency: CONCURRENCY });
  await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()]);
  return {
    send: (id) => queue.add('no-op', { id }),
    async close() {
      await worker.close();
      await queue.obliterate({ force: true });
      await queue.close();
    },
  };
};
