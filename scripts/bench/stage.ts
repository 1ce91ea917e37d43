import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { Agent } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type Mongo, openMongo } from '#infra/mongo/connect.ts';
import { migrate } from '#infra/mongo/schema/migrate.ts';
import { freePort } from '#scripts/start/services/port.ts';
import { type HttpAnswer, send } from '#testing/clients/call.ts';
import { type Child, startChild } from './child.ts';
import type { BenchContext } from './measure.ts';

/** A new database with processes of the product on it. */
export interface Stage {
  mongo: Mongo;
  database: string;
  /** Port of the front door; 0 without a `web` process. */
  port: number;
  /** Opens a new keep-alive connection to the front door. */
  connect(): Promise<HttpClient>;
  processes: ReadonlyMap<ProcessName, Child>;
  /** Starts one more process. */
  start(name: ProcessName): Promise<void>;
  /** Ends the processes and drops the database. */
  close(): Promise<void>;
}

/** A process type of the Procfile. */
export type ProcessName = string;

export const TOKEN = 'bench-token';
const READY = { worker: 'worker is ready', web: 'front door is open' };

/** Opens a stage with real processes, as the Procfile starts them. `more` is added to the environment of each. */
export async function openStage(
  context: BenchContext,
  names: readonly ProcessName[],
  more: NodeJS.ProcessEnv = {},
): Promise<Stage> {
  const database = `bench_${randomBytes(5).toString('hex')}`;
  const mongo = openMongo({ url: context.mongodbUrl, database, appName: 'examhall-bench' });
  const port = names.includes('web') ? await freePort() : 0;
  const processes = new Map<ProcessName, Child>();
  const env = {
    ...process.env,
    MONGODB_URL: context.mongodbUrl,
    MONGODB_DATABASE: database,
    REDIS_URL: context.redisUrl,
    INTERNAL_SERVICE_TOKEN: TOKEN,
    PORT: String(port),
    LOG_LEVEL: 'info',
    DRAIN_GRACE_MS: '0',
    // The front door holds the notification service too.
    ...(names.includes('gradenotices') ? { NOTIFICATION_SERVICE_URL: `http://127.0.0.1:${port}` } : {}),
    ...more,
  };
  async function close(): Promise<void> {
    await Promise.all([...processes.values()].map((child) => child.stop()));
    await mongo.db.dropDatabase().catch(() => undefined);
    await mongo.close();
  }
  async function start(name: ProcessName): Promise<void> {
    const args = name === 'web' ? ['api/main.ts'] : ['workers/main.ts', name];
    const readyWhen = name === 'web' ? READY.web : READY.worker;
    processes.set(name, await startChild({ name, args, env, readyWhen, folder: context.folder }));
  }
  try {
    await migrate(mongo, () => undefined, { isProbed: true });
    for (const name of names) await start(name);
    if (names.includes('web')) await untilServing(port);
  } catch (error) {
    await close();
    throw error;
  }
  return { mongo, database, port, connect: () => openHttpClient(port), processes, start, close };
}

/** Waits until the front door is ready: it listens before it has read the database. */
async function untilServing(port: number): Promise<void> {
  const client = await openHttpClient(port);
  try {
    while ((await client.request('GET', '/readyz', {})).status !== 200) await delay(50);
  } finally {
    client.close();
  }
}

/** One keep-alive connection that sends one request at a time. */
export interface HttpClient {
  request(method: string, path: string, headers: Readonly<Record<string, string>>, body?: string): Promise<HttpAnswer>;
  close(): void;
}

/** Connects to the server on `port` in advance, so that no request includes the handshake. A body is sent as JSON. */
export async function openHttpClient(port: number): Promise<HttpClient> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  agent.createConnection = () => socket;
  const origin = `http://127.0.0.1:${port}`;
  return {
    async request(method, target, headers, body) {
      if (socket.destroyed) throw new Error('the server closed the connection while it was idle');
      const typed = body === undefined ? headers : { ...headers, 'content-type': 'application/json' };
      return send(origin, { method, target, headers: typed, body, agent });
    },
    close: () => agent.destroy(),
  };
}
