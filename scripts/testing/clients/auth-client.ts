import { randomUUID } from 'node:crypto';
import { checkedApi } from '#testing/doors/checked-api.ts';
import type { Cluster } from '#testing/processes/cluster.ts';
import type { HttpRequest } from './call.ts';

type Headers = HttpRequest['headers'];

/** A password that meets the policy for every test account. */
export const PASSWORD = 'Sông Hương núi Ngự 1802';

export function newEmail(): string {
  return `hs-${randomUUID()}@truong.example`;
}

/** Returns a client of the auth service at a front door. Every reply is checked against the OpenAPI document. */
export async function authClient(cluster: Cluster, ownDoor = 1) {
  const call = await checkedApi((method, target, options) =>
    cluster.request(method, target, { door: ownDoor, ...options }),
  );
  const post = (path: string, body: unknown, headers: Headers = {}, door = ownDoor) =>
    call('POST', `/v1/auth/${path}`, { body, headers, door });
  return {
    call,
    register: (change: Record<string, unknown> = {}, headers: Headers = {}, door = ownDoor) =>
      post('register', { email: newEmail(), password: PASSWORD, fullName: 'Nguyễn Văn An', ...change }, headers, door),
    login: (email: string, password = PASSWORD, headers: Headers = {}) => post('login', { email, password }, headers),
    refresh: (refreshToken: string, door = ownDoor) => post('refresh', { refreshToken }, {}, door),
    logout: (refreshToken: string) => post('logout', { refreshToken }),
    as(accessToken: string) {
      const headers = { authorization: `Bearer ${accessToken}` };
      return {
        me: () => call('GET', '/v1/auth/me', { headers }),
        sessions: () => call('GET', '/v1/auth/sessions', { headers }),
        endSession: (id: string) => call('DELETE', `/v1/auth/sessions/${id}`, { headers }),
        endOthers: () => post('sessions/revoke-others', undefined, headers),
        changePassword: (currentPassword: string, newPassword: string) =>
          post('password', { currentPassword, newPassword }, headers),
      };
    },
  };
}

// biome-ignore lint/suspicious/noExplicitAny: claims are matched by tests, field by field
export function claimsIn(token: string): any {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
}
