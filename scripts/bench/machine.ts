import os from 'node:os';
import { Redis } from 'ioredis';
import { MongoClient } from 'mongodb';

/** Describes the machine of the measurements in `name: value` lines; `stores` are the lines of the databases. */
export function machineLines(stores: readonly string[]): string[] {
  const [first] = os.cpus();
  return [
    `date: ${new Date().toISOString().slice(0, 16)}Z`,
    `processor: ${first?.model.trim() ?? 'unknown'}, ${os.availableParallelism()} cores`,
    `load: ${os.loadavg()[2]?.toFixed(1)} on average over the last quarter of an hour (this run alone makes about 2)`,
    `memory: ${Math.round(os.totalmem() / 2 ** 30)} GiB`,
    `system: ${os.type()} ${os.release()} ${os.arch()}`,
    `Node: ${process.version}`,
    ...stores,
  ];
}

/** Returns name and version of the server at this URL: `secantusd-rs 0.5.3-beta.196 (speaks 8.2.11)`. */
export async function identifyMongodb(url: string): Promise<string> {
  const client = new MongoClient(url);
  try {
    const admin = client.db('admin');
    const info = await admin.command({ buildInfo: 1 });
    // A mongod may refuse serverStatus to this account, and its reply is not needed.
    return mongodbServer(info, 'secantusVersion' in info ? await admin.command({ serverStatus: 1 }) : {});
  } finally {
    await client.close();
  }
}

/** Names a server by its replies. Both stand-ins report the version of mongod that they imitate and their own. */
export function mongodbServer(
  info: { version?: string; secantusVersion?: string },
  status: { secantus?: { server?: string } },
): string {
  const { version = 'unknown', secantusVersion } = info;
  if (secantusVersion === undefined) return `mongod ${version}`;
  const { server = 'unknown' } = status.secantus ?? {};
  if (server === 'rust') return `secantusd-rs ${secantusVersion} (speaks ${version})`;
  const language = server === 'python' ? 'Python' : `${server} language`;
  return `SecantusDB ${secantusVersion} in ${language} (speaks ${version})`;
}

/** Returns the report line of the Redis server. */
export async function redisLine(url: string): Promise<string> {
  const client = new Redis(url);
  try {
    const version = /redis_version:(\S+)/.exec(await client.info('server'))?.[1] ?? 'unknown';
    return `Redis: redis-server ${version}`;
  } finally {
    client.disconnect();
  }
}
