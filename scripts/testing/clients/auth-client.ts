import { randomUUID } from 'node:crypto';
import { checkedApi } from '#testing/doors/checked-api.ts';
import type { Cluster } from '#testing/processes/cluster.ts';
import type { HttpReply, HttpRequest } from './http-call.ts';

type Headers = HttpRequest['headers'];

/** A password that meets the policy for every test account. */
export const PASSWORD = 'Sông Hương núi Ngự 1802';

/** Client of the auth service's front door. Every reply is checked against the OpenAPI document. */
export interface AuthClient {
  call: Awaited<ReturnType<typeof checkedApi>>;
  register(change?: Record<string, unknown>, headers?: Headers, door?: number): Promise<HttpReply>;
  login(email: string, password?: string, headers?: Headers): Promise<HttpReply>;
  refresh(refreshToken: string, door?: number): Promise<HttpReply>;
  logout(refreshToken: string): Promise<HttpReply>;
  /** Returns calls that send this access token as Bearer. */
  as(accessToken: string): {
    me(): Promise<HttpReply>;
    sessions(): Promise<HttpReply>;
    endSession(id: string): Promise<HttpReply>;
    endOthers(): Promise<HttpReply>;
    changePassword(currentPassword: string, newPassword: string): Promise<HttpReply>;
  };
}

/** Returns an e-mail address that no other account has. */
export function newEmail(): string {
  return `hs-${randomUUID()}@truong.example`;
}

/** Returns a client of the cluster's auth service. */
export async function authClient(cluster: Cluster): Promise<AuthClient> {
  const call = await checkedApi((method, target, options) => cluster.request(method, target, options));
  const post = (path: string, body: unknown, headers: Headers = {}, door = 1) =>
    call('POST', `/v1/auth/${path}`, { body, headers, door });
  return {
    call,
    register: (change = {}, headers = {}, door = 1) =>
      post('register', { email: newEmail(), password: PASSWORD, fullName: 'Nguyễn Văn An', ...change }, headers, door),
    login: (email, password = PASSWORD, headers = {}) => post('login', { email, password }, headers),
    refresh: (refreshToken, door = 1) => post('refresh', { refreshToken }, {}, door),
    logout: (refreshToken) => post('logout', { refreshToken }),
    as(accessToken) {
      const headers = { authorization: `Bearer ${accessToken}` };
      return {
        me: () => call('GET', '/v1/auth/me', { headers }),
        sessions: () => call('GET', '/v1/auth/sessions', { headers }),
        endSession: (id) => call('DELETE', `/v1/auth/sessions/${id}`, { headers }),
        endOthers: () => post('sessions/revoke-others', undefined, headers),
        changePassword: (currentPassword, newPassword) => post('password', { currentPassword, newPassword }, headers),
      };
    },
  };
}

/** Returns the claims of a token without verifying it. */
// biome-ignore lint/suspicious/noExplicitAny: claims are matched by tests, field by field
export function claimsIn(token: string): any {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
}
