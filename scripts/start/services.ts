import { localMongodb, mongodbAt } from '#scripts/start/services/mongodb.ts';
import { rememberedPort } from '#scripts/start/services/port.ts';
import type { Say } from '#scripts/start/services/python-tools.ts';
import { localRedis, redisAt } from '#scripts/start/services/redis.ts';
import type { Service } from '#scripts/start/services/service.ts';
import { toolsCache } from '#scripts/start/services/tools.ts';

/**
 * Returns the MongoDB and Redis of a development cluster: those of MONGODB_URL and REDIS_URL, otherwise local ones that store their data
 * and ports in the data folder. A variable that is set to the empty string counts as set.
 * @throws ServiceMissing if one can neither be found nor installed
 */
export async function developmentServices(deps: {
  env: NodeJS.ProcessEnv;
  folder: string;
  say: Say;
}): Promise<{ mongodb: Service; redis: Service }> {
  const { env, folder } = deps;
  const local = { env, cache: toolsCache(env), say: deps.say };
  // One after the other, because their installations share the machine and the terminal.
  const mongodb =
    env.MONGODB_URL === undefined
      ? await localMongodb(local, {
          folder,
          port: await rememberedPort(folder, 'mongodb'),
          durable: true,
          testCommands: false,
        })
      : mongodbAt(env.MONGODB_URL);
  const redis =
    env.REDIS_URL === undefined
      ? await localRedis(local, { folder, port: await rememberedPort(folder, 'redis') })
      : redisAt(env.REDIS_URL);
  return { mongodb, redis };
}
