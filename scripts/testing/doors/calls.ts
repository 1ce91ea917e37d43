import type { Call, Identity } from '#api/route.ts';

/** Returns a call as the server would pass it to a command: its shape is checked. It ends only by the signals of `change`. */
export function callWith<Body>(body: Body, change: Partial<Omit<Call<Body>, 'body'>> = {}): Call<Body> {
  const { signal } = new AbortController();
  const empty = { params: {}, query: {}, headers: {}, identity: {}, peer: '' };
  return { requestId: 'request-1', ...empty, body, signal, stop: signal, ...change };
}

/** Returns a call of a student with this idempotency key. */
export function callOf<Body>(body: Body, params: Record<string, string>, studentId: string, key = 'key-1'): Call<Body> {
  const actor: Identity['actor'] = { id: studentId, role: 'STUDENT' };
  return callWith(body, { params, identity: { actor, idempotency: { key, header: 'idempotency-key' } } });
}
