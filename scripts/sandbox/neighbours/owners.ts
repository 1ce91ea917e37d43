import { SENDER } from '#infra/neighbours/owner-call.ts';
import type { ReceivedCall } from '#scripts/sandbox/local-server.ts';
import { COUNTERS } from '#shared/classifier/generation.ts';
import type { StartQuestion } from '../../../clients/typescript/src/index.ts';
import {
  AMOUNT,
  byId,
  closed,
  fields,
  type NeighbourCall,
  ok,
  type Reply,
  type Route,
  refusal,
  type Schema,
  type StandIn,
  TEXT,
  textIn,
} from './stand-in.ts';

/** Usage service, wallet and question bank have one caller, which names in these headers on whose behalf it calls. */
const FROM_OWNER_CALLS = { senders: [SENDER], headers: ['x-organization-id', 'x-actor-id', 'x-actor-role'] } as const;

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

export function newLedger(balance = 1_000_000): Ledger {
  return { balance, limits: new Map(), used: new Map(), consumed: new Map(), debits: new Map() };
}

interface Item {
  counter: string;
  amount: number;
}

/** Applies a call for usage service or wallet to the ledger and returns the answer. Returns undefined for any other call. */
export function answerFrom(
  ledger: Ledger,
  // biome-ignore lint/suspicious/noExplicitAny: the path determines the fields, and the shapes below check them
  { method, path, headers, body }: Pick<ReceivedCall, 'method' | 'path' | 'headers'> & { body: any },
): Reply | undefined {
  if (path === '/v1/usage/check') {
    const exceeded = (body.checks as Item[]).filter(
      ({ counter, amount }) => (ledger.used.get(counter) ?? 0) + amount > (ledger.limits.get(counter) ?? Infinity),
    );
    return ok({ allowed: exceeded.length === 0, exceeded: exceeded.map(({ counter }) => counter) });
  }
  if (path === '/v1/usage/consume') {
    const key = String(headers['idempotency-key']);
    const known = ledger.consumed.get(key);
    ledger.consumed.set(key, { items: body.items, times: (known?.times ?? 0) + 1 });
    if (known !== undefined) return { status: 409, body: { success: false } };
    for (const { counter, amount } of body.items as Item[])
      ledger.used.set(counter, (ledger.used.get(counter) ?? 0) + amount);
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

interface UsageFacts {
  limits: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

interface WalletFacts {
  balances: Readonly<Record<string, number>>;
}

const ITEMS = { type: 'array', minItems: 1, items: closed({ counter: { enum: [...COUNTERS] }, amount: AMOUNT }) };

/** Opens a usage service without limits and a wallet in which each organization begins with the same balance. */
export function ownerStandIns(firstBalance: number) {
  const ledgers = new Map<string, Ledger>();

  function ledgerOf(organizationId: string): Ledger {
    const ledger = ledgers.get(organizationId) ?? newLedger(firstBalance);
    ledgers.set(organizationId, ledger);
    return ledger;
  }

  /** Applies a call to the ledger of its organization, which header and body or path must name alike. */
  function apply(call: NeighbourCall, organizationId: string): Reply {
    if (call.headers['x-organization-id'] !== organizationId)
      return refusal(403, 'FORBIDDEN', 'the header names another organization');
    return answerFrom(ledgerOf(organizationId), call) ?? refusal(404, 'ROUTE_NOT_FOUND', 'unknown route');
  }

  function debit(call: NeighbourCall, organizationId: string): Reply {
    const { amount, idempotencyKey } = call.body as { amount: number; idempotencyKey: string };
    const { debits, balance } = ledgerOf(organizationId);
    const known = debits.get(idempotencyKey)?.amount;
    if ((known ?? amount) !== amount)
      return refusal(422, 'IDEMPOTENCY_KEY_REUSED', 'this key has debited another amount');
    if (known === undefined && amount > balance) return refusal(402, 'WALLET_INSUFFICIENT', 'the balance is too low');
    return apply(call, organizationId);
  }

  const post = (path: RegExp, shape: Schema, answer: Route['answer']): Route => ({
    method: 'POST',
    path,
    shape,
    answer,
    ...FROM_OWNER_CALLS,
  });
  const ids = fields(TEXT, 'organizationId', 'actorId');
  const inBody = (call: NeighbourCall) => apply(call, textIn(call.body, 'organizationId'));
  const stateBy = (part: (ledger: Ledger) => object) =>
    Object.fromEntries([...ledgers].map(([organizationId, ledger]) => [organizationId, part(ledger)]));

  const usage = {
    facts: closed({ limits: byId(byId(AMOUNT)) }),
    learn({ limits }: UsageFacts) {
      for (const [organizationId, own] of Object.entries(limits))
        ledgerOf(organizationId).limits = new Map(Object.entries(own));
    },
    routes: [
      post(/^\/v1\/usage\/check$/, closed({ ...ids, checks: ITEMS }), inBody),
      {
        ...post(/^\/v1\/usage\/consume$/, closed({ ...ids, items: ITEMS }), inBody),
        headers: [...FROM_OWNER_CALLS.headers, 'idempotency-key'],
      },
    ],
    state: () =>
      stateBy(({ used, limits, consumed }) => ({
        used: Object.fromEntries(used),
        limits: Object.fromEntries(limits),
        consumed: Object.fromEntries(consumed),
      })),
    forget() {
      for (const ledger of ledgers.values())
        for (const part of [ledger.used, ledger.limits, ledger.consumed]) part.clear();
    },
  } satisfies StandIn<UsageFacts>;

  const wallet = {
    facts: closed({ balances: byId(AMOUNT) }),
    learn({ balances }: WalletFacts) {
      for (const [organizationId, balance] of Object.entries(balances)) ledgerOf(organizationId).balance = balance;
    },
    routes: [
      {
        method: 'GET',
        path: /^\/v1\/wallets\/([^/]+)\/balance$/,
        ...FROM_OWNER_CALLS,
        answer: (call: NeighbourCall, [organizationId = '']: string[]) => apply(call, organizationId),
      },
      post(
        /^\/v1\/wallets\/([^/]+)\/transactions$/,
        closed({ type: { const: 'USAGE_DEBIT' }, amount: AMOUNT, ...fields(TEXT, 'reason', 'idempotencyKey') }),
        (call, [organizationId = '']) => debit(call, organizationId),
      ),
    ],
    state: () => stateBy(({ balance, debits }) => ({ balance, debits: Object.fromEntries(debits) })),
    forget() {
      for (const ledger of ledgers.values()) {
        ledger.balance = firstBalance;
        ledger.debits.clear();
      }
    },
  } satisfies StandIn<WalletFacts>;

  return { usage, wallet, ledgerOf };
}

/** Path of the question bank for the content of questions that a model may see. */
export const CONTEXT_PATH = '/v1/questions/ai-classify/context';

/** Answers a call of a question bank with the questions that `questionOf` knows, in the order of the call. */
export function questionsAnswer(call: ReceivedCall, questionOf: (id: string) => object | undefined): Reply {
  const { questionIds } = call.json() as { questionIds: readonly string[] };
  return ok({ questions: questionIds.flatMap((id) => questionOf(id) ?? []) });
}

/** Returns the part of an exam's question that a model may see: everything but the key. */
export function bankQuestion({ questionId, content, contentText, options = [] }: StartQuestion) {
  return { id: questionId, content, contentText, options };
}

/** Facts of the question bank: questions that it stores, in place of those with the same id. */
interface BankFacts {
  questions: readonly { id: string }[];
}

const REQUEST = closed({
  questionIds: { type: 'array', minItems: 1, maxItems: 2_000, uniqueItems: true, items: TEXT },
  fields: { type: 'array', items: TEXT },
  mode: { enum: ['SUGGEST', 'AUTO'] },
  overwrite: { type: 'boolean' },
});

export function bankStandIn(first: BankFacts['questions']) {
  const questions = new Map<string, object>();
  const asked = new Set<string>();

  function questionOf(id: string): object | undefined {
    if (questions.has(id)) asked.add(id);
    return questions.get(id);
  }

  function learn(facts: BankFacts): void {
    for (const question of facts.questions) questions.set(question.id, question);
  }

  learn({ questions: first });
  return {
    learn,
    /** Returns the number of its questions whose content was requested. */
    questionsAsked: () => asked.size,
    facts: closed({
      questions: { type: 'array', items: { type: 'object', required: ['id'], properties: { id: TEXT } } },
    }),
    routes: [
      {
        method: 'POST',
        path: new RegExp(`^${CONTEXT_PATH}$`),
        ...FROM_OWNER_CALLS,
        shape: REQUEST,
        answer: (call) => questionsAnswer(call, questionOf),
      },
    ],
    state: () => ({ questions: questions.size, asked: asked.size, ids: [...questions.keys()] }),
    forget() {
      asked.clear();
      questions.clear();
      learn({ questions: first });
    },
  } satisfies StandIn<BankFacts> & { questionsAsked(): number };
}
