import { SENDER } from '#infra/neighbours/owner-call.ts';
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
  type StandIn,
  TEXT,
  textIn,
} from './stand-in.ts';

/** Headers in which the only caller of usage service, wallet and question bank names on whose behalf it calls. */
const OWNER_HEADERS = ['x-organization-id', 'x-actor-id', 'x-actor-role'] as const;

/** The state of usage service and wallet. Each idempotency key takes effect once. */
export interface Ledger {
  balance: number;
  /** Credits by which a debit may exceed the balance. */
  overdraft: number;
  /** Limit by counter; a missing counter is unlimited. */
  limits: Map<string, number>;
  used: Map<string, number>;
  /** By key: the counted items, and the number of calls with this key. */
  consumed: Map<string, { items: unknown; times: number }>;
  debits: Map<string, { organizationId: string; amount: number; times: number }>;
}

export function newLedger(balance: number, overdraft = 0): Ledger {
  return { balance, overdraft, limits: new Map(), used: new Map(), consumed: new Map(), debits: new Map() };
}

interface Item {
  counter: string;
  amount: number;
}

const ITEMS = { type: 'array', minItems: 1, items: closed({ counter: { enum: [...COUNTERS] }, amount: AMOUNT }) };
const IDS = fields(TEXT, 'organizationId', 'actorId');
const CHECK = closed({ ...IDS, checks: ITEMS });
const CONSUME = closed({ ...IDS, items: ITEMS });
const DEBIT = closed({ type: { const: 'USAGE_DEBIT' }, amount: AMOUNT, ...fields(TEXT, 'reason', 'idempotencyKey') });

function check({ used, limits }: Ledger, { body }: NeighbourCall): Reply {
  const exceeded = (body as { checks: Item[] }).checks.filter(
    ({ counter, amount }) => (used.get(counter) ?? 0) + amount > (limits.get(counter) ?? Infinity),
  );
  return ok({ allowed: exceeded.length === 0, exceeded: exceeded.map(({ counter }) => counter) });
}

function consume({ used, consumed }: Ledger, { headers, body }: NeighbourCall): Reply {
  const { items } = body as { items: Item[] };
  const key = String(headers['idempotency-key']);
  const known = consumed.get(key);
  consumed.set(key, { items, times: (known?.times ?? 0) + 1 });
  if (known !== undefined) return refusal(409, 'ALREADY_CONSUMED', 'this key has been consumed');
  for (const { counter, amount } of items) used.set(counter, (used.get(counter) ?? 0) + amount);
  return ok({ consumed: true });
}

function debit(ledger: Ledger, { body }: NeighbourCall, organizationId: string): Reply {
  const { amount, idempotencyKey: key } = body as { amount: number; idempotencyKey: string };
  const known = ledger.debits.get(key);
  if (known !== undefined && known.amount !== amount)
    return refusal(422, 'IDEMPOTENCY_KEY_REUSED', 'this key has debited another amount');
  if (known === undefined && amount > ledger.balance + ledger.overdraft)
    return refusal(402, 'WALLET_INSUFFICIENT', 'the balance is too low');
  ledger.debits.set(key, { organizationId, amount, times: (known?.times ?? 0) + 1 });
  if (known === undefined) ledger.balance -= amount;
  return ok({ transactionId: key });
}

/** Opens a usage service without limits and a wallet. `shared` is the ledger of every organization; by default each has its own. */
export function ownerStandIns(firstBalance: number, shared?: Ledger) {
  const ledgers = new Map<string, Ledger>();

  function ledgerOf(organizationId: string): Ledger {
    const ledger = shared ?? ledgers.get(organizationId) ?? newLedger(firstBalance);
    ledgers.set(organizationId, ledger);
    return ledger;
  }

  /** Returns a route that acts on the ledger of its organization, which header and path or body must name alike. */
  function route(
    place: Pick<Route, 'method' | 'path' | 'shape'>,
    act: (ledger: Ledger, call: NeighbourCall, organizationId: string) => Reply,
    ...headers: string[]
  ): Route {
    return {
      ...place,
      senders: [SENDER],
      headers: [...OWNER_HEADERS, ...headers],
      answer(call, [organizationId = textIn(call.body, 'organizationId')]) {
        if (call.headers['x-organization-id'] === organizationId)
          return act(ledgerOf(organizationId), call, organizationId);
        return refusal(403, 'FORBIDDEN', 'the header names another organization');
      },
    };
  }

  const stateBy = (part: (ledger: Ledger) => object) =>
    Object.fromEntries([...ledgers].map(([organizationId, ledger]) => [organizationId, part(ledger)]));

  const usage = {
    facts: closed({ limits: byId(byId(AMOUNT)) }),
    learn({ limits }: { limits: Readonly<Record<string, Readonly<Record<string, number>>>> }) {
      for (const [organizationId, own] of Object.entries(limits))
        ledgerOf(organizationId).limits = new Map(Object.entries(own));
    },
    routes: [
      route({ method: 'POST', path: /^\/v1\/usage\/check$/, shape: CHECK }, check),
      route({ method: 'POST', path: /^\/v1\/usage\/consume$/, shape: CONSUME }, consume, 'idempotency-key'),
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
  } satisfies StandIn;

  const wallet = {
    facts: closed({ balances: byId(AMOUNT) }),
    learn({ balances }: { balances: Readonly<Record<string, number>> }) {
      for (const [organizationId, balance] of Object.entries(balances)) ledgerOf(organizationId).balance = balance;
    },
    routes: [
      route({ method: 'GET', path: /^\/v1\/wallets\/([^/]+)\/balance$/ }, ({ balance }) => ok({ balance })),
      route({ method: 'POST', path: /^\/v1\/wallets\/([^/]+)\/transactions$/, shape: DEBIT }, debit),
    ],
    state: () => stateBy(({ balance, debits }) => ({ balance, debits: Object.fromEntries(debits) })),
    forget() {
      for (const ledger of ledgers.values()) {
        ledger.balance = firstBalance;
        ledger.debits.clear();
      }
    },
  } satisfies StandIn;

  return { usage, wallet, ledgerOf };
}

/** Returns the part of an exam's question that a model may see: everything but the key. */
export function bankQuestion({ questionId, content, contentText, options = [] }: StartQuestion) {
  return { id: questionId, content, contentText, options };
}

const REQUEST = closed({
  questionIds: { type: 'array', minItems: 1, maxItems: 2_000, uniqueItems: true, items: TEXT },
  fields: { type: 'array', items: TEXT },
  mode: { enum: ['SUGGEST', 'AUTO'] },
  overwrite: { type: 'boolean' },
});

/** Opens a question bank with these questions. It stores those that it learns in place of those with the same id. */
export function bankStandIn(first: readonly { id: string }[]) {
  const questions = new Map<string, object>();
  const asked = new Set<string>();

  function learn(facts: { questions: readonly { id: string }[] }): void {
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
        path: /^\/v1\/questions\/ai-classify\/context$/,
        senders: [SENDER],
        headers: OWNER_HEADERS,
        shape: REQUEST,
        answer({ body }) {
          const { questionIds } = body as { questionIds: readonly string[] };
          const known = questionIds.filter((id) => questions.has(id));
          for (const id of known) asked.add(id);
          return ok({ questions: known.map((id) => questions.get(id)) });
        },
      },
    ],
    state: () => ({ questions: questions.size, asked: asked.size, ids: [...questions.keys()] }),
    forget() {
      asked.clear();
      questions.clear();
      learn({ questions: first });
    },
  } satisfies StandIn & { questionsAsked(): number };
}
