import type { ServerResponse } from 'node:http';
import { answerJson, openReceiver, type ReceivedCall } from '#scripts/sandbox/local-server.ts';
import { bankStandIn, type Ledger, newLedger, ownerStandIns } from '#scripts/sandbox/neighbours/owners.ts';
import { answerOf, type NeighbourCall, type Reply } from '#scripts/sandbox/neighbours/stand-in.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

export interface OwnerCall extends ReceivedCall {
  // biome-ignore lint/suspicious/noExplicitAny: bodies are matched by tests, field by field
  body: any;
}

/** Opens the usage service, wallet and question bank of the sandbox, with one ledger for all organizations and without tokens. */
export function openOwners(ledger: Ledger) {
  const { usage, wallet } = ownerStandIns(ledger.balance, ledger);
  const bank = bankStandIn([]);
  const all = { ...bank, routes: [...usage.routes, ...wallet.routes, ...bank.routes] };
  return {
    learn: bank.learn,
    /** Answers a call of an owner; undefined for any other call. */
    answer: (call: NeighbourCall): Reply | Promise<Reply> | undefined =>
      all.routes.some(({ path }) => path.test(call.path)) ? answerOf(all, call, () => undefined) : undefined,
  };
}

/**
 * A fault of an owner. `lost`: it performs the call and hangs up instead of replying. `away`: it performs nothing and hangs up.
 * `hangs`: it performs nothing and never replies. An object is the reply, and nothing is performed.
 */
export type OwnerFault =
  | 'lost'
  | 'away'
  | 'hangs'
  | { status: number; headers?: Record<string, string>; body?: unknown };

export type FakeOwners = Awaited<ReturnType<typeof openFakeOwners>>;

/** Opens usage service, wallet and question bank as one real HTTP server. `fault` makes its calls fail. */
export async function openFakeOwners(t: Teardown) {
  const url = await openReceiver(t, serve);
  const ledger = newLedger(1_000_000, Number.POSITIVE_INFINITY);
  const { learn, answer } = openOwners(ledger);
  const owners = {
    url,
    ledger,
    calls: [] as OwnerCall[],
    /** Teaches the question bank a question. */
    questions: { set: (id: string, question: object) => learn({ questions: [{ ...question, id }] }) },
    fault: null as ((call: OwnerCall) => OwnerFault | undefined) | null,
    /** Delays a call before it takes effect, until the returned promise resolves. */
    pause: null as ((call: OwnerCall) => Promise<unknown> | undefined) | null,
    env: { USAGE_SERVICE_URL: url, WALLET_SERVICE_URL: url, QUESTION_BANK_SERVICE_URL: url },
  };

  async function serve(received: ReceivedCall, response: ServerResponse): Promise<void> {
    const call: OwnerCall = { ...received, body: received.json() };
    owners.calls.push(call);
    await owners.pause?.(call);
    const fault = owners.fault?.(call);
    if (fault === 'hangs') return;
    if (fault === 'away') return void response.socket?.destroy();
    if (typeof fault === 'object') return void answerJson(response, fault);
    const reply = await answer(call);
    if (reply === undefined || fault === 'lost') return void response.socket?.destroy();
    answerJson(response, reply);
  }

  return owners;
}
