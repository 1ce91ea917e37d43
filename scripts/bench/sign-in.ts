import { openMongo } from '#infra/mongo/connect.ts';
import { freePort } from '#scripts/start/services/port.ts';
import { startChild } from './child.ts';
import type { BenchContext } from './measure.ts';
import { type HttpClient, openHttpClient } from './stage.ts';

export const PASSWORD = 'sông hương núi ngự';

export interface Tokens {
  accessToken: string;
  refreshToken: string;
}

/** Registers an account and returns its tokens. @throws Error for a refusal */
export function register(client: HttpClient, email: string): Promise<Tokens> {
  return callOurs(client, 'register', { email, password: PASSWORD, fullName: 'Nguyễn Văn An' });
}

/** Logs in and returns the tokens. @throws Error for a refusal */
export function login(client: HttpClient, email: string): Promise<Tokens> {
  return callOurs(client, 'login', { email, password: PASSWORD });
}

/** Refreshes a session and returns the new tokens. @throws Error for a refusal */
export function refresh(client: HttpClient, refreshToken: string): Promise<Tokens> {
  return callOurs(client, 'refresh', { refreshToken });
}

async function callOurs(client: HttpClient, path: string, body: object): Promise<Tokens> {
  const reply = await client.request('POST', `/v1/auth/${path}`, {}, JSON.stringify(body));
  if (reply.status > 201) throw new Error(`${path}: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
  return JSON.parse(reply.body.toString()).data;
}

/** A better-auth server in its own process, on its own database; see servers/better-auth.ts. */
export interface BetterAuth {
  connect(): Promise<HttpClient>;
  close(): Promise<void>;
}

/** Starts better-auth; `close` stops it and drops its database. */
export async function openBetterAuth(
  context: BenchContext,
  { database, passwordCost }: { database: string; passwordCost: number },
): Promise<BetterAuth> {
  const port = await freePort();
  const env = {
    ...process.env,
    PORT: String(port),
    MONGODB_URL: context.mongodbUrl,
    MONGODB_DATABASE: database,
    NODE_ENV: 'production',
    PASSWORD_COST: String(passwordCost),
  };
  const args = ['scripts/bench/servers/better-auth.ts'];
  const readyWhen = 'bench server is ready';
  const child = await startChild({ name: 'better-auth', args, env, readyWhen, folder: context.folder });
  return {
    connect: () => openHttpClient(port),
    async close() {
      await child.stop();
      const mongo = openMongo({ url: context.mongodbUrl, database, appName: 'examhall-bench' });
      await mongo.db.dropDatabase().catch(() => undefined);
      await mongo.close();
    },
  };
}

/** Registers an account and returns the token of its session. */
export function signUp(client: HttpClient, account: { email: string; password: string }): Promise<string> {
  return callRival(client, '/sign-up/email', { ...account, name: 'Nguyễn Văn An' });
}

/** Signs in at better-auth and returns the token of the session. */
export function signIn(client: HttpClient, account: { email: string; password: string }): Promise<string> {
  return callRival(client, '/sign-in/email', account);
}

async function callRival(client: HttpClient, path: string, body: object): Promise<string> {
  // The headers are those of a plain client: better-auth would refuse a browser's request without an Origin as forged.
  const reply = await client.request('POST', path, {}, JSON.stringify(body));
  if (reply.status !== 200)
    throw new Error(`better-auth ${path}: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
  return JSON.parse(reply.body.toString()).token;
}
