import { Redis } from 'ioredis';

/** What a test needs of a Redis that it may freeze, kill and empty. */
interface ThrowAwayRedis {
  readonly url: string;
  start(): Promise<void>;
  kill9(): Promise<void>;
  freeze(): void;
  thaw(): void;
}

type StartServices = (options: { mongodb: false; redis: true }) => Promise<{
  redis: ThrowAwayRedis | undefined;
  close(): Promise<void>;
}>;

/** For tests only: a Redis of a test's own, so that its faults hurt no other test. */
export interface OwnRedis extends ThrowAwayRedis {
  /** Runs one command on a connection of its own. */
  command(name: string, ...args: string[]): Promise<unknown>;
  close(): Promise<void>;
}

export async function ownRedis(startServices: StartServices): Promise<OwnRedis> {
  const { redis, close } = await startServices({ mongodb: false, redis: true });
  if (redis === undefined) throw new Error('The throw-away services came without Redis');
  const { url } = redis;
  return {
    ...redis,
    close,
    async command(name, ...args) {
      const client = new Redis(url, { protocol: 2, retryStrategy: () => null, disableClientInfo: true });
      client.on('error', () => {});
      try {
        return await client.call(name, ...args);
      } finally {
        client.disconnect();
      }
    },
  };
}
