import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ConfigError, readConfig } from '#infra/config/config.ts';
import { DEVELOPMENT_DEFAULTS } from '#infra/config/variable.ts';

/** Both opt-in workers on, and a provider that costs nothing. */
const CLASSIFIER_SETTINGS = {
  AI_CLASSIFIER_PROVIDER: 'mock',
  AI_CLASSIFIER_WORKER_ENABLED: '1',
  AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1',
};

export interface EffectiveEnvironment {
  readonly env: NodeJS.ProcessEnv;
  /** One sentence for each fault; empty when the cluster may start. */
  readonly faults: readonly string[];
}

/**
 * The environment of every process: what is given, and in development a default for what is not. A variable set to the empty
 * string counts as set. With NODE_ENV=production nothing is defaulted, and secrets that the processes would refuse are refused here:
 * once, before anything is started.
 */
export function effectiveEnvironment(
  given: NodeJS.ProcessEnv,
  place: { port: number; secret: () => string },
): EffectiveEnvironment {
  if (given.NODE_ENV === 'production') return { env: { ...given }, faults: configFaults(given) };
  const env: NodeJS.ProcessEnv = { NODE_ENV: 'development', ...DEVELOPMENT_DEFAULTS, ...CLASSIFIER_SETTINGS, ...given };
  env.AUTH_JWT_SECRET ??= place.secret();
  env.NOTIFICATION_SERVICE_URL ??= frontDoorUrl(env, place.port);
  return { env, faults: configFaults(env) };
}

/** Where the front door is found from this machine: a HOST that stands for every address is no address to dial. */
export function frontDoorUrl({ HOST }: NodeJS.ProcessEnv, port: number): string {
  const host = HOST === undefined || ['0.0.0.0', '::'].includes(HOST) ? '127.0.0.1' : HOST;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** What every process would refuse, told once and before anything is started; its stores are not known yet. */
function configFaults(env: NodeJS.ProcessEnv): readonly string[] {
  const stores = { MONGODB_URL: 'mongodb://127.0.0.1/', REDIS_URL: 'redis://127.0.0.1/' };
  try {
    readConfig({ ...stores, ...env });
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
}

/** The same secret at every start from this folder, or everybody would be signed out by a restart. */
export function generatedSecret(folder: string): string {
  const file = path.join(folder, 'auth-jwt-secret');
  try {
    const kept = readFileSync(file, 'utf8').trim();
    if (kept !== '') return kept;
  } catch {
    // The first start from this folder.
  }
  const secret = randomBytes(48).toString('base64url');
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, `${secret}\n`, { mode: 0o600 });
  chmodSync(file, 0o600);
  return secret;
}
