import type { DeclaredIndex } from './index-rules.ts';
import type { CollectionName } from './personal-fields.ts';

/** The fields whose hash decides on which shard a row is. A command that names them with equality goes to one shard. */
interface Sharded {
  readonly shardKey: readonly string[];
}

/** A collection that stays on one shard. */
interface Unsharded {
  /** Rows up to which this is no limit. */
  readonly rows: number;
  readonly why: string;
}

export type Placement = Sharded | Unsharded;

/**
 * Where the rows of each collection are on a sharded cluster. A collection without an entry does not compile.
 *
 * MongoDB enforces a unique index only if it begins with the shard key, because each shard knows its own rows alone. All keys are
 * hashed: ids begin with their time, so that ranges of them would send every insert to one shard.
 */
export const PLACEMENTS: Readonly<Record<CollectionName, Placement>> = {
  // A student's attempts at an exam are unique by student, and every route of a student names the student.
  attempts: by('studentId'),
  attempt_events: by('attemptId'),
  attempt_texts: by('attemptId'),
  attempt_papers: by('_id'),
  attempt_link_seats: by('linkId'),
  attempt_releases: by('examId'),
  attempt_exams: by('_id'),
  attempt_exam_acts: by('examId'),
  attempt_regrades: by('examId'),
  attempt_regrade_lines: by('attemptId'),
  // A mailbox promises one live command for each key.
  commands: by('key'),
  attempt_notices: by('key'),
  notification_deliveries: by('key'),
  notifications: by('userId'),
  // Makes the id of a notification that another system has chosen unique over all shards.
  notification_snapshot_ids: by('_id'),
  notification_delivery_attempts: by('userId'),
  notification_preferences: by('_id'),
  notification_push_subscriptions: onOne(1e7, 'a browser belongs to one user, and each delivery finds those of a user'),
  notification_alert_calls: by('_id'),
  notification_events: onOne(1e8, 'two kinds of replay keys are unique, and they begin with different fields'),
  notification_suppressions: onOne(1e7, 'a row ends after 30 days, and operators search it by user and by request'),
  notification_fan_outs: onOne(1e4, 'a row is deleted when its fan-out is settled'),
  auth_sessions: by('accountId'),
  auth_tokens: by('accountId'),
  auth_throttles: by('_id'),
  auth_known_pairs: by('_id'),
  auth_security_events: by('accountId'),
  accounts: onOne(1e7, 'e-mail, account code and phone are each unique, and a login reads one row'),
  ai_jobs: onOne(1e7, 'the open key and two kinds of slots are unique, and they begin with different fields'),
  ai_job_selections: by('_id'),
  ai_job_batches: by('jobId'),
  ai_generations: by('key'),
  ai_generation_holds: by('_id'),
  ai_preview_leases: by('_id'),
  ai_usage_events: by('_id'),
  ai_provider_settings: onOne(1, 'it holds the selected provider'),
  ai_setting_changes: onOne(1e4, 'an administrator writes each row'),
  erased_persons: by('_id'),
  operator_audit: onOne(1e7, 'each row contains the hash of the row before it'),
  event_subscriptions: onOne(100, 'an operator creates each row, and at most fifty exist'),
  workers: onOne(1e4, 'it has one row for each process'),
  isolation_slot: onOne(1, 'it holds the one slot in which a suspect of the whole cluster runs'),
  cluster_samples: onOne(200, 'a row is deleted after two hours, and each is that of a minute'),
  console_ends: by('_id'),
  cluster_keys: onOne(1, 'it holds the key of the hashes of persons'),
  schema_state: onOne(1, 'it holds the version of the schema'),
};

/** Returns the fields that decide on which shard a row of the collection is. Empty: all rows are on one shard. */
export function shardKeyOf(collection: CollectionName): readonly string[] {
  const placement = PLACEMENTS[collection];
  return 'shardKey' in placement ? placement.shardKey : [];
}

function by(...shardKey: string[]): Sharded {
  return { shardKey };
}

function onOne(rows: number, why: string): Unsharded {
  return { rows, why };
}

/** Returns the unique indexes that a sharded cluster would refuse. */
export function refusedOnShards(indexes: readonly DeclaredIndex[], placements = PLACEMENTS): DeclaredIndex[] {
  return indexes.filter(({ collection, keys, options }) => {
    const placement = placements[collection];
    return options?.unique === true && 'shardKey' in placement && refusesUnique(Object.keys(keys), placement);
  });
}

/**
 * Returns whether MongoDB refuses a unique index of these fields on a collection with this shard key: it does, unless the index begins
 * with the key. The first field `_id` is always accepted.
 */
export function refusesUnique(fields: readonly string[], { shardKey }: Sharded): boolean {
  return fields[0] !== '_id' && shardKey.some((field, place) => fields[place] !== field);
}
