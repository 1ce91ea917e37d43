import type { ServerResponse } from 'node:http';
import { answerJson, openReceiver, type ReceivedCall } from '#scripts/sandbox/local-server.ts';
import { answerFrom, newLedger, questionsAnswer } from '#scripts/sandbox/neighbours/owners.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

export interface OwnerCall extends ReceivedCall {
  // biome-ignore lint/suspicious/noExplicitAny: bodies are matched by tests, field by field
  body: any;
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
  const owners = {
    url,
    ledger: newLedger(),
    calls: [] as OwnerCall[],
    /** Questions of the question bank, by id. */
    questions: new Map<string, Record<string, unknown>>(),
    fault: null as ((call: OwnerCall) => OwnerFault | undefined) | null,
    /** Delays a call before it takes effect, until the returned promise resolves. */
    pause: null as ((call: OwnerCall) => Promise<unknown> | undefined) | null,
    env: { USAGE_SERVICE_URL: url, WALLET_SERVICE_URL: url, QUESTION_BANK_SERVICE_URL: url },
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
