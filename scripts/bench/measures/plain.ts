import { randomBytes } from 'node:crypto';
import { openMongo } from '#infra/mongo/connect.ts';
import { startChild } from '#scripts/bench/child.ts';
import { answerBody, startOverHttp, studentHeaders } from '#scripts/bench/exam.ts';
import { type BenchContext, figuresOf, type Measure, type Row, ratesOf, timed } from '#scripts/bench/measure.ts';
import { processorMs } from '#scripts/bench/processor.ts';
import { openBacklog } from '#scripts/bench/queue-ages.ts';
import { type HttpClient, openHttpClient, openStage } from '#scripts/bench/stage.ts';
import { freePort } from '#scripts/start/services/port.ts';

const AT_ONCE = 16;
const QUESTIONS = 40;

/** One service under measurement. */
interface Side {
  name: string;
  port: number;
  /** Process ids by the name of their part. */
  parts: Readonly<Record<string, number | undefined>>;
}

/** Students whose work is timed, in one run. */
interface Sizes {
  alone: number;
  starts: number;
  saves: number;
  submits: number;
}

/** Measures starts, saves and a minute in which all students submit, beside the plain service that a team would write instead. */
export const measurePlain: Measure = async (context) => {
  const sizes = context.quick
    ? { alone: 40, starts: 96, saves: 160, submits: 50 }
    : { alone: 400, starts: 600, saves: 1_600, submits: 200 };
  const stage = await openStage(context, ['web', 'grading', 'gradenotices']);
  const plain = await startPlain(context);
  const stores = { MongoDB: context.stores.mongodb, Redis: context.stores.redis };
  try {
    const sides: Side[] = [
      {
        name: 'ours',
        port: stage.port,
        parts: { ...Object.fromEntries([...stage.processes].map(([type, { pid }]) => [type, pid])), ...stores },
      },
      { name: 'plain', port: plain.port, parts: { service: plain.pid, ...stores } },
    ];
    const rounds = context.quick ? 1 : 3;
    const found = new Map<string, Record<string, number[]>>();
    for (let round = 0; round <= rounds; round++) {
      for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
        const figures = await sat(side, `bench-plain-${side.name}-${round}`, sizes);
        // Notices that are still sent would slow down the next side.
        await openBacklog(stage.mongo).drained();
        if (round > 0) add(found, side.name, figures);
      }
      context.progress.reach(round + 1, rounds + 1);
    }
    return rowsOf(found, sizes);
  } finally {
    await plain.close();
    await stage.close();
  }
};

function add(found: Map<string, Record<string, number[]>>, side: string, figures: Record<string, number[]>): void {
  const all = found.get(side) ?? {};
  for (const [name, samples] of Object.entries(figures)) all[name] = [...(all[name] ?? []), ...samples];
  found.set(side, all);
}

async function startPlain(context: BenchContext) {
  const database = `bench_${randomBytes(5).toString('hex')}`;
  const mongo = openMongo({ url: context.mongodbUrl, database, appName: 'examhall-bench' });
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), MONGODB_URL: context.mongodbUrl, MONGODB_DATABASE: database };
  const child = await startChild({
    name: 'plain',
    args: ['scripts/bench/servers/plain.ts'],
    env: { ...env, NODE_ENV: 'production' },
    readyWhen: 'bench server is ready',
    folder: context.folder,
  });
  return {
    port,
    pid: child.pid,
    async close() {
      await child.stop();
      await mongo.db.dropDatabase().catch(() => undefined);
      await mongo.close();
    },
  };
}

/** Sits one exam and returns its samples by name: milliseconds, or rates per second. */
async function sat({ port, parts }: Side, exam: string, sizes: Sizes): Promise<Record<string, number[]>> {
  const workers = await connected(port, AT_ONCE);
  const ids: string[] = [];
  const spent: Record<string, number[]> = {};
  const meter = openMeter(parts);
  const note = (what: string, count: number) => {
    for (const [part, ms] of meter(count)) spent[`${what}: ${part}`] = [ms];
  };
  const starts = await rate(workers, sizes.starts, async (client, n) => {
    ids[n] = await startOverHttp(client, exam, `${exam}-${n}`);
  });
  note('starts', sizes.starts);
  const save = (client: HttpClient, student: number, n: number, body = answerBody(n % QUESTIONS, n % 3 === 0)) =>
    post(client, `${exam}-${student}`, `/v1/attempts/${ids[student]}/answers`, JSON.stringify(body));
  // As in an exam room: each student who submits has answered each question.
  await rate(workers, sizes.submits, async (client, student) => {
    for (let n = 0; n < QUESTIONS; n++) await save(client, student, n);
  });
  const alone: number[] = [];
  const first = await openHttpClient(port);
  for (let n = 0; n < sizes.alone; n++) alone.push(await timed(() => save(first, sizes.submits, n)));
  const latencies: number[] = [];
  meter(1);
  const saves = await rate(await connected(port, AT_ONCE), sizes.saves, async (client, n) => {
    const student = sizes.submits + 1 + (n % AT_ONCE);
    latencies.push(await timed(() => save(client, student, n)));
  });
  note('saves', sizes.saves);
  const waits: number[] = [];
  const everybody = await connected(port, sizes.submits);
  const submits = await rate(everybody, sizes.submits, async (client, n) => {
    const wait = () => post(client, `${exam}-${n}`, `/v1/attempts/${ids[n]}/submit`, '{"source":"STUDENT"}');
    waits.push(await timed(wait));
  });
  note('submits', sizes.submits);
  for (const client of [first, ...workers, ...everybody]) client.close();
  return { alone, starts: [starts], saves: [saves], latencies, submits: [submits], waits, ...spent };
}

/** Opens connections. A front door ends those that stay silent. */
function connected(port: number, count: number): Promise<HttpClient[]> {
  return Promise.all(Array.from({ length: count }, () => openHttpClient(port)));
}

async function post(client: HttpClient, student: string, path: string, body: string): Promise<void> {
  const reply = await client.request('POST', path, studentHeaders(student), body);
  if (reply.status !== 200) throw new Error(`${path}: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
}

/** Works through `count` numbers with all clients at once, and returns how many a second. */
async function rate(
  clients: readonly HttpClient[],
  count: number,
  work: (client: HttpClient, n: number) => Promise<void>,
): Promise<number> {
  let next = 0;
  const ms = await timed(() =>
    Promise.all(
      clients.map(async (client) => {
        while (next < count) await work(client, next++);
      }),
    ),
  );
  return (count / ms) * 1_000;
}

function rowsOf(found: ReadonlyMap<string, Record<string, number[]>>, sizes: Sizes): Row[] {
  const of = (side: string, name: string) => found.get(side)?.[name] ?? [];
  const row = (name: string, samples: string, unit: Row['unit'], aim: Row['aim'], figures = figuresOf): Row => ({
    name,
    unit,
    aim,
    against: 'the plain service',
    ours: figures(of('ours', samples)),
    reference: figures(of('plain', samples)),
    notes: spentOn(found, samples),
  });
  return [
    row('a save alone', 'alone', 'ms', { side: 'most', ratio: 1 }),
    row(`saves, ${AT_ONCE} at once`, 'saves', '/s', { side: 'least', ratio: 1.1 }, ratesOf),
    row(`saves, ${AT_ONCE} at once: wait`, 'latencies', 'ms', { side: 'most', ratio: 1 }),
    row(`starts, ${AT_ONCE} at once`, 'starts', '/s', { side: 'least', ratio: 1.1 }, ratesOf),
    row(`${sizes.submits} submits at once`, 'submits', '/s', { side: 'least', ratio: 1.1 }, ratesOf),
    row(`${sizes.submits} submits at once: wait`, 'waits', 'ms', { side: 'most', ratio: 1 }),
  ];
}

/** Returns a note with the processor time of each side. */
function spentOn(found: ReadonlyMap<string, Record<string, number[]>>, samples: string): string[] {
  return [...found].flatMap(([side, figures]) => {
    const parts = Object.entries(figures).filter(([name]) => name.startsWith(`${samples}: `));
    const texts = parts.map(([name, ms]) => `${name.slice(samples.length + 2)} ${figuresOf(ms).p50.toFixed(1)} ms`);
    return texts.length === 0 ? [] : [`processor time of one, ${side}: ${texts.join(', ')}`];
  });
}

/** Returns a meter of the processor time (ms) that each part has spent on one of `count` since the last call. */
function openMeter(parts: Side['parts']): (count: number) => [part: string, ms: number][] {
  let last = Object.values(parts).map(processorMs);
  return (count) => {
    const now = Object.values(parts).map(processorMs);
    const spent = Object.keys(parts).map((part, i): [string, number] => [
      part,
      ((now[i] ?? 0) - (last[i] ?? 0)) / count,
    ]);
    last = now;
    return spent;
  };
}
