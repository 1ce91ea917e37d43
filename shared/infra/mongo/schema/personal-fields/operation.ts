import type { ClusterKey } from '#infra/mongo/cluster-key.ts';
import type { ErasedPerson } from '#infra/mongo/erased-persons.ts';
import type { WorkerRow } from '#infra/mongo/live-workers.ts';
import type { IsolationSlot } from '#infra/mongo/mailbox/suspects.ts';
import type { ConsoleEnd } from '#infra/mongo/operations/console-ends.ts';
import type { ClusterSample } from '#infra/mongo/operations/samples.ts';
import type { AuditRow } from '#infra/mongo/operator-audit.ts';
import type { SchemaState } from '#infra/mongo/schema-state.ts';
import type { Subscription } from '#shared/operations/subscription.ts';
import { COMMANDS_DECLARATION } from './command-fields.ts';
import type { AnyDeclaration, Declaration } from './rules.ts';

const ACCOUNTABLE = { kept: 'the audit is never changed; it proves who acted on an account, and why' } as const;

/** Collections of no service. An operator is no person here: the name in the audit belongs to the employer's records. */
export const OPERATION_FIELDS = {
  commands: COMMANDS_DECLARATION,
  operator_audit: {
    links: [],
    fields: {
      _id: 'no person',
      action: 'no person',
      subject: ACCOUNTABLE,
      detail: ACCOUNTABLE,
      queue: 'no person',
      commandId: 'no person',
      lastError: 'no person',
      chargeSuperseded: 'no person',
      operator: ACCOUNTABLE,
      reason: ACCOUNTABLE,
      at: 'no person',
      seq: 'no person',
      previous: 'no person',
      hash: 'no person',
    },
  } satisfies Declaration<AuditRow>,
  event_subscriptions: {
    links: [],
    fields: {
      _id: 'no person',
      url: 'no person',
      types: 'no person',
      organizationId: 'no person',
      description: 'no person',
      state: 'no person',
      disabledReason: 'no person',
      secret: { secret: 'no person' },
      previousSecret: { secret: 'no person' },
      previousUntil: 'no person',
      failingSince: 'no person',
      pausedUntil: 'no person',
      createdAt: 'no person',
      updatedAt: 'no person',
    },
  } satisfies Declaration<Subscription>,
  workers: {
    links: [],
    fields: {
      _id: 'no person',
      actor: 'no person',
      queues: 'no person',
      host: 'no person',
      pid: 'no person',
      version: 'no person',
      schema: 'no person',
      router: 'no person',
      startedAt: 'no person',
      seenAt: 'no person',
      slots: 'no person',
      busy: 'no person',
      rssBytes: 'no person',
      settled: 'no person',
      failed: 'no person',
      died: 'no person',
      unanswering: 'no person',
      heldLoop: 'no person',
    },
  } satisfies Declaration<WorkerRow>,
  isolation_slot: {
    links: [],
    fields: {
      _id: 'no person',
      until: 'no person',
      workerId: 'no person',
      queue: 'no person',
      commandId: 'no person',
      stamp: 'no person',
    },
  } satisfies Declaration<IsolationSlot>,
  cluster_samples: {
    links: [],
    fields: { _id: 'no person', at: 'no person', queues: 'no person', heldLoops: 'no person' },
  } satisfies Declaration<ClusterSample>,
  console_ends: {
    links: [],
    fields: { _id: 'no person', endsAt: 'no person' },
  } satisfies Declaration<ConsoleEnd>,
  cluster_keys: {
    links: [],
    fields: { _id: 'no person', key: { secret: 'no person' }, createdAt: 'no person' },
  } satisfies Declaration<ClusterKey>,
  schema_state: {
    links: [],
    fields: {
      _id: 'no person',
      version: 'no person',
      compatibleFrom: 'no person',
      runner: 'no person',
      lockedUntil: 'no person',
      passed: 'no person',
      sharded: 'no person',
      stamp: 'no person',
    },
  } satisfies Declaration<SchemaState>,
  erased_persons: {
    links: [],
    fields: {
      _id: { kept: 'the digest of the id: it refuses requests and events that would store the person again' },
      state: 'no person',
      pseudonym: 'removed',
      operator: ACCOUNTABLE,
      reason: ACCOUNTABLE,
      begunAt: 'no person',
      erasedAt: 'no person',
      counts: 'no person',
      again: { kept: 'the id until the second pass, which begins 20 minutes after the erasure and removes it' },
      stamp: 'no person',
    },
  } satisfies Declaration<ErasedPerson>,
} as const satisfies Readonly<Record<string, AnyDeclaration>>;
