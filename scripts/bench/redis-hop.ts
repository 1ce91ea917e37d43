import { Redis } from 'ioredis';

/** The least that a question to another process through Redis costs: a list that it blocks on, and a word back. */
export interface RedisHop {
  go(): Promise<void>;
  close(): Promise<void>;
}

export function openRedisHop(url: string): RedisHop {
  const [list, channel] = [`bench:hop:${process.pid}`, `bench:hop:${process.pid}:back`];
  const [asking, hearing, blocking, answering] = [new Redis(url), new Redis(url), new Redis(url), new Redis(url)];
  let back: (() => void) | undefined;
  const ready = hearing.subscribe(channel);
  hearing.on('message', () => back?.());
  let open = true;
  const answerer = (async () => {
    while (open) {
      const popped = await blocking.brpop(list, 0).catch(() => null);
      if (popped !== null) await answering.publish(channel, popped[1]);
    }
  })();
  return {
    async go() {
      await ready;
      const { promise, resolve } = Promise.withResolvers<void>();
      back = resolve;
      await asking.lpush(list, 'x');
      await promise;
    },
    async close() {
      open = false;
      for (const client of [asking, hearing, blocking, answering]) client.disconnect();
      await answerer;
    },
  };
}
