import { createHash } from 'node:crypto';
import { ConfigError, readConfig } from '#infra/config/config.ts';
import type { ConfiguredAs } from '#infra/config/readers.ts';

export const MONGODB_URL = 'mongodb://127.0.0.1:27017/?replicaSet=rs0';
export const REDIS_URL = 'redis://127.0.0.1:6379';

/** The fewest settings with which every production process starts. */
export const PRODUCTION = {
  NODE_ENV: 'production',
  MONGODB_URL,
  REDIS_URL,
  AUTH_JWT_SECRET: 'jwt-secret-of-a-production-process',
  GATEWAY_TOKEN: 'gateway-token-of-a-production',
  INTERNAL_SERVICE_TOKEN: 'internal-token-of-a-production',
  OPS_TOKEN: 'ops-token-of-a-production-process',
  TRUSTED_PROXIES: 'none',
} as const;

/** Returns a secret of 43 characters that production accepts: for each text the same one. */
export function strongSecret(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/**
 * Returns the configuration faults that a process with this environment would report before it exits; none if it would start. The default is
 * a process that reads every variable.
 */
export function configFaults(env: NodeJS.ProcessEnv, type: ConfiguredAs = 'cluster'): readonly string[] {
  try {
    readConfig(env, type);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
}
