import { type Child, startChild } from '#scripts/bench/child.ts';
import { answerBody } from '#scripts/bench/exam.ts';
import { alternate, type BenchContext, type Measure, type Row, ratesOf } from '#scripts/bench/measure.ts';
import { peer } from '#scripts/bench/peers.ts';
import { freePort } from '#scripts/start/services/port.ts';

const CONNECTIONS = 50;

/** Loads one URL; `duration` is in seconds. */
interface Autocannon {
  default(options: {
    url: string;
    connections: number;
    duration: number;
    method: string;
    headers: Record<string, string>;
    body: string;
  }): Promise<{ errors: number; non2xx: number; '2xx': number; duration: number }>;
}

/** Measures a route without a database against Fastify with the same schema, each in its own process. */
export const measureHttp: Measure = async (context) => {
  const bare = await duel(context, { logs: false, name: 'HTTP without a database', against: 'Fastify, same schema' });
  const logged = await duel(context, {
    logs: true,
    name: 'HTTP with a log line each',
    against: 'Fastify with its logger',
  });
  return [
    {
      ...bare,
      aim: { side: 'least', ratio: 0.85 },
      notes: [`${CONNECTIONS} connections; body validated, JSON out; ours with guards, request id and metrics`],
    },
    logged,
  ];
};

async function duel(context: BenchContext, match: { logs: boolean; name: string; against: string }): Promise<Row> {
  const children: Child[] = [];
  async function start(name: 'ours' | 'fastify'): Promise<string> {
    const port = await freePort();
    const env = {
      ...process.env,
      PORT: String(port),
      LOG_LEVEL: match.logs ? 'info' : 'silent',
      NODE_ENV: 'production',
    };
    const args = [`scripts/bench/servers/${name}.ts`];
    children.push(await startChild({ name, args, env, readyWhen: 'bench server is ready', folder: context.folder }));
    return `http://127.0.0.1:${port}/echo/x`;
  }
  try {
    const [ours, fastify] = [await start('ours'), await start('fastify')];
    const seconds = context.quick ? 1 : 2;
    const rates = await alternate(context, {
      ours: () => requestsPerSecond(ours, seconds),
      reference: () => requestsPerSecond(fastify, seconds),
      rounds: context.quick ? 2 : 12,
      warmUp: 1,
    });
    return {
      name: match.name,
      unit: '/s',
      against: match.against,
      aim: null,
      notes: [],
      ours: ratesOf(rates.ours),
      reference: ratesOf(rates.reference),
    };
  } finally {
    await Promise.all(children.map((child) => child.stop()));
  }
}

async function requestsPerSecond(url: string, seconds: number): Promise<number> {
  const { default: autocannon } = await peer<Autocannon>('autocannon');
  const result = await autocannon({
    url,
    connections: CONNECTIONS,
    duration: seconds,
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-user-id': 'student-1', 'x-user-role': 'STUDENT' },
    body: JSON.stringify(answerBody(3, true)),
  });
  if (result.errors > 0 || result.non2xx > 0)
    throw new Error(`${url}: ${result.errors} errors, ${result.non2xx} refused`);
  return result['2xx'] / result.duration;
}
