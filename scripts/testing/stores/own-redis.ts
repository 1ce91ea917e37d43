import { Redis } from 'ioredis';

/** A Redis that a test may freeze, kill and empty. */
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

/** For tests only: a Redis for one test, so that its faults affect no other test. */
export interface OwnRedis extends ThrowAwayRedis {
  /** Runs one command on a new connection. */
  command(name: string, ...args: string[]): Promise<unknown>;
  close(): Promise<void>;
}

/** Starts a Redis for one test, through the `startServices` of the caller. */
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
