import type { ServerResponse } from 'node:http';
import { answerJson, openReceiver, type ReceivedCall } from '#scripts/http/local-server.ts';
import { questionsAnswer } from '#scripts/http/question-bank.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

/** One call that arrived at the owners. */
export interface OwnerCall extends ReceivedCall {
  // biome-ignore lint/suspicious/noExplicitAny: bodies are matched by tests, field by field
  body: any;
}

/**
 * A fault of an owner. `lost`: it performs the call and hangs up instead of replying. `away`: it performs nothing and hangs up.
 * `hangs`: it performs nothing and never replies. An object is the reply, and nothing is performed.
 */
export type OwnerFault = 'lost' | 'away' | 'hangs' | { status: number; headers?: Record<string, string> };

/** The state of usage service and wallet. Each idempotency key takes effect once. */
export interface Ledger {
  balance: number;
  /** Limit by counter; a missing counter is unlimited. */
  limits: Map<string, number>;
  used: Map<string, number>;
  /** By key: the counted items, and the number of calls with this key. */
  consumed: Map<string, { items: unknown; times: number }>;
  debits: Map<string, { organizationId: string; amount: number; times: number }>;
}

export interface FakeOwners {
  url: string;
  ledger: Ledger;
  calls: OwnerCall[];
  /** Questions of the question bank, by id. */
  questions: Map<string, Record<string, unknown>>;
  fault: ((call: OwnerCall) => OwnerFault | undefined) | null;
  /** Delays a call before it takes effect, until the returned promise resolves. */
  pause: ((call: OwnerCall) => Promise<unknown> | undefined) | null;
  /** Environment that names this server as usage service, wallet and question bank. */
  env: NodeJS.ProcessEnv;
}

/** Returns a ledger without limits, usage or debits. */
export function newLedger(balance = 1_000_000): Ledger {
  return { balance, limits: new Map(), used: new Map(), consumed: new Map(), debits: new Map() };
}

type Answer = { status: number; body: unknown };

/** Applies a call for usage service or wallet to the ledger and returns the answer. Returns undefined for any other call. */
export function answerFrom(ledger: Ledger, { method, path, headers, body }: OwnerCall): Answer | undefined {
  const ok = (data: unknown): Answer => ({ status: 200, body: { success: true, data } });
  if (path === '/v1/usage/check') {
    const exceeded = (body.checks as { counter: string; amount: number }[]).filter(
      ({ counter, amount }) => (ledger.used.get(counter) ?? 0) + amount > (ledger.limits.get(counter) ?? Infinity),
    );
    return ok({ allowed: exceeded.length === 0, exceeded: exceeded.map(({ counter }) => counter) });
  }
  if (path === '/v1/usage/consume') {
    const key = String(headers['idempotency-key']);
    const known = ledger.consumed.get(key);
    ledger.consumed.set(key, { items: body.items, times: (known?.times ?? 0) + 1 });
    if (known !== undefined) return { status: 409, body: { success: false } };
    for (const { counter, amount } of body.items) ledger.used.set(counter, (ledger.used.get(counter) ?? 0) + amount);
    return ok({ consumed: true });
  }
  const wallet = /^\/v1\/wallets\/([^/]+)\/(balance|transactions)$/.exec(path);
  if (wallet === null) return undefined;
  if (method === 'GET') return ok({ balance: ledger.balance });
  const key = String(body.idempotencyKey);
  const known = ledger.debits.get(key);
  const debit = { organizationId: wallet[1] ?? '', amount: body.amount };
  ledger.debits.set(key, { ...(known ?? debit), times: (known?.times ?? 0) + 1 });
  if (known === undefined) ledger.balance -= body.amount;
  return ok({ transactionId: key });
}

/** Opens usage service, wallet and question bank as one real HTTP server. `fault` makes its calls fail. */
export async function openFakeOwners(t: Teardown): Promise<FakeOwners> {
  const url = await openReceiver(t, serve);
  const env = { USAGE_SERVICE_URL: url, WALLET_SERVICE_URL: url, QUESTION_BANK_SERVICE_URL: url };
  const owners: FakeOwners = {
    url,
    ledger: newLedger(),
    calls: [],
    questions: new Map(),
    fault: null,
    pause: null,
    env,
  };

  function serve(received: ReceivedCall, response: ServerResponse): void {
    const call: OwnerCall = { ...received, body: received.json() };
    owners.calls.push(call);
    const paused = owners.pause?.(call);
    if (paused === undefined) perform(call, response);
    else void paused.then(() => perform(call, response));
  }

  function perform(call: OwnerCall, response: ServerResponse): void {
    const fault = owners.fault?.(call);
    if (fault === 'hangs') return;
    if (fault === 'away') return void response.socket?.destroy();
    if (typeof fault === 'object') return void answerJson(response, fault);
    const answer = answerFrom(owners.ledger, call) ?? questionsAnswer(call, (id) => owners.questions.get(id));
    if (fault === 'lost') return void response.socket?.destroy();
    answerJson(response, answer);
  }

  return owners;
}
