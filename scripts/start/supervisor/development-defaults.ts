import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ConfigError, readConfig } from '#infra/config/config.ts';
import { DEVELOPMENT_DEFAULTS } from '#infra/config/variable.ts';
import { defaultOf } from '#infra/config/variable-reader.ts';
import { VARIABLES } from '#infra/config/variables.ts';
import { mailEnvironment, standInEnvironment } from '#scripts/sandbox/neighbours/environment.ts';

/** Enables both opt-in workers, with a provider that costs nothing. */
const CLASSIFIER_SETTINGS = {
  AI_CLASSIFIER_PROVIDER: 'mock',
  AI_CLASSIFIER_WORKER_ENABLED: '1',
  AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1',
};

/**
 * Returns the environment of every process, and its faults. In development, unset variables have defaults; an empty variable counts as
 * set. With NODE_ENV=production there are no defaults. Values that the processes would refuse are reported here once, before anything
 * starts.
 */
export function effectiveEnvironment(
  given: NodeJS.ProcessEnv,
  place: { port: number; secret: () => string },
): { env: NodeJS.ProcessEnv; faults: readonly string[] } {
  if (given.NODE_ENV === 'production') {
    const refused = given.NEIGHBOURS_URL === undefined ? [] : ['NEIGHBOURS_URL: stand-ins are for development'];
    return { env: { ...given }, faults: [...refused, ...configFaults(given)] };
  }
  // A value in a file is given too: with a default beside it, it would be set twice.
  const tokens = Object.entries(DEVELOPMENT_DEFAULTS).filter(([name]) => given[`${name}_FILE`] === undefined);
  const settings = { ...CLASSIFIER_SETTINGS, ...neighbourSettings(given) };
  const defaults = { NODE_ENV: 'development', ...Object.fromEntries(tokens), ...settings };
  const env: NodeJS.ProcessEnv = { ...defaults, ...given };
  if (env.AUTH_JWT_SECRET_FILE === undefined) env.AUTH_JWT_SECRET ??= place.secret();
  // Its second name counts as well: two addresses would let the default win over the one that was given.
  if (env.NOTIFICATION_SERVICE_URL === undefined && env.NOTIFICATION_SERVICE_BASE_URL === undefined)
    env.NOTIFICATION_SERVICE_URL = frontDoorUrl(env, place.port);
  return { env, faults: configFaults(env) };
}

/**
 * Returns the settings that point the cluster at the stand-ins of `npm run neighbours`: none without NEIGHBOURS_URL. A service that is
 * given by its second name, or another model provider, has no stand-in.
 */
function neighbourSettings(given: NodeJS.ProcessEnv): Record<string, string> {
  if (given.NEIGHBOURS_URL === undefined) return {};
  const url = given.NEIGHBOURS_URL.replace(/\/+$/, '');
  const settings = Object.entries({ ...standInEnvironment(url), ...mailEnvironment(url) });
  const isGiven = (name: string) => {
    if (name.startsWith('AI_CLASSIFIER_')) return given.AI_CLASSIFIER_PROVIDER !== undefined;
    // The port and the TLS of the stand-in fit no other mail server.
    if (name.startsWith('NOTIFICATION_EMAIL_')) return given.NOTIFICATION_EMAIL_HOST !== undefined;
    return given[name.replace(/_SERVICE_URL$/, '_SERVICE_BASE_URL')] !== undefined;
  };
  return Object.fromEntries(settings.filter(([name]) => !isGiven(name)));
}

/** Returns the URL of the front door for clients on this machine. If HOST means every address, that is the loopback address. */
export function frontDoorUrl({ HOST }: NodeJS.ProcessEnv, port: number): string {
  const host = HOST === undefined || ['0.0.0.0', '::'].includes(HOST) ? '127.0.0.1' : HOST;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Returns the faults that every process would report. The URLs of the stores are placeholders, because the stores have not started. */
function configFaults(env: NodeJS.ProcessEnv): readonly string[] {
  const stores = { MONGODB_URL: 'mongodb://127.0.0.1/', REDIS_URL: 'redis://127.0.0.1/' };
  try {
    readConfig({ ...stores, ...env }, 'cluster');
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
}

/** Returns the secret of this folder and creates it at the first start. A new secret at every start would end all sessions. */
export function generatedSecret(folder: string): string {
  const file = path.join(folder, 'auth-jwt-secret');
  try {
    const kept = readFileSync(file, 'utf8').trim();
    if (kept !== '') return kept;
  } catch {
    // The file is missing: this is the first start from this folder.
  }
  const secret = randomBytes(48).toString('base64url');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(file, `${secret}\n`, { mode: 0o600 });
  chmodSync(file, 0o600);
  return secret;
}

/** Returns what a newcomer does next, one step a line. Prints a token only if this repository names it anyway. */
export function firstSteps({ url, env }: { url: string; env: NodeJS.ProcessEnv }): string[] {
  const { OPS_TOKEN: known } = DEVELOPMENT_DEFAULTS;
  const isKnown = env.OPS_TOKEN === known && env.OPS_TOKEN_FILE === undefined;
  const hasToken = (env.OPS_TOKEN ?? '') !== '' || env.OPS_TOKEN_FILE !== undefined;
  const own = hasToken ? 'with your OPS_TOKEN' : 'as an ADMIN, because OPS_TOKEN is not set';
  const hasDocs = (env.API_DOCS ?? defaultOf(VARIABLES.API_DOCS, env.NODE_ENV === 'production')) === '1';
  const reference = hasDocs
    ? `${url}/docs is the reference, ${url}/openapi.json its document`
    : `${url}/openapi.json is the document`;
  return [
    `console   ${url}/ops; sign in ${isKnown ? `with OPS_TOKEN ${known}` : own}`,
    `api       ${reference}; docs/gateway.md has an example of each route`,
    'operator  npm run examhall -- status',
    'demo      npm run demo, in a second terminal',
  ];
}
