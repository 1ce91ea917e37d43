import type { HttpClient } from './http-client.ts';

export const PASSWORD = 'sông hương núi ngự';

export interface Tokens {
  accessToken: string;
  refreshToken: string;
}

export function register(client: HttpClient, email: string): Promise<Tokens> {
  return post(client, 'register', { email, password: PASSWORD, fullName: 'Nguyễn Văn An' });
}

export function login(client: HttpClient, email: string): Promise<Tokens> {
  return post(client, 'login', { email, password: PASSWORD });
}

export function refresh(client: HttpClient, refreshToken: string): Promise<Tokens> {
  return post(client, 'refresh', { refreshToken });
}

async function post(client: HttpClient, path: string, body: object): Promise<Tokens> {
  const reply = await client.request('POST', `/v1/auth/${path}`, {}, JSON.stringify(body));
  if (reply.status > 201) throw new Error(`${path}: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
  return JSON.parse(reply.body.toString()).data;
}
