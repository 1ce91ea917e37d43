import type { Config } from './config.ts';

/** Every secret of a configuration, for the log to cut out wherever one turns up. */
export function secretsOf(config: Config): string[] {
  const all = [
    config.gatewayToken,
    config.internalServiceToken,
    config.opsToken,
    config.attempt.receiverToken,
    ...Object.values(config.notification.senderTokens),
    config.notification.webhook?.secret,
    ...Object.values(config.classifier.keys),
    config.auth.jwt.secret,
    ...config.auth.jwt.previousSecrets,
    ...Object.values(config.neighbours).map((neighbour) => neighbour?.token),
    passwordOf(config.mongodb.url),
    passwordOf(config.redis.url),
  ];
  return [...new Set(all.filter((secret): secret is string => secret !== undefined && secret !== ''))];
}

/** MongoDB URLs may name several hosts, which URL refuses. */
function passwordOf(url: string): string | undefined {
  const password = /^[a-z+]+:\/\/[^/?@]*?:([^/?@]*)@/i.exec(url)?.[1];
  return password === undefined ? undefined : decodeURIComponent(password);
}
