import os from 'node:os';
import { Redis } from 'ioredis';
import { MongoClient } from 'mongodb';

/** What the numbers were measured on, as `name: value` lines. */
export async function machineLines(urls: { mongodbUrl: string; redisUrl: string }): Promise<string[]> {
  const [mongodb, redis] = await Promise.all([mongodbLine(urls.mongodbUrl), redisLine(urls.redisUrl)]);
  const [first] = os.cpus();
  return [
    `date: ${new Date().toISOString().slice(0, 16)}Z`,
    `processor: ${first?.model.trim() ?? 'unknown'}, ${os.availableParallelism()} cores`,
    `load: ${os.loadavg()[2]?.toFixed(1)} on average over the last quarter of an hour (this run alone makes about 2)`,
    `memory: ${Math.round(os.totalmem() / 2 ** 30)} GiB`,
    `system: ${os.type()} ${os.release()} ${os.arch()}`,
    `Node: ${process.version}`,
    `MongoDB: ${mongodb}`,
    `Redis: ${redis}`,
  ];
}

async function mongodbLine(url: string): Promise<string> {
  const client = new MongoClient(url);
  try {
    const [info, hello] = await Promise.all([
      client.db('admin').command({ buildInfo: 1 }),
      client.db('admin').command({ hello: 1 }),
    ]);
    // The stand-in calls itself by the version that it imitates; its replica set's name gives it away.
    const standIn = hello.setName === 'secantus' || 'secantusVersion' in info;
    return standIn ? `SecantusDB (speaks ${info.version}), not a real mongod` : `mongod ${info.version}`;
  } finally {
    await client.close();
  }
}

async function redisLine(url: string): Promise<string> {
  const client = new Redis(url);
  try {
    return `redis-server ${/redis_version:(\S+)/.exec(await client.info('server'))?.[1] ?? 'unknown'}`;
  } finally {
    client.disconnect();
  }
}
