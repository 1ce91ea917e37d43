import type { Command, Queue } from '#shared/kernel/command.ts';
import type { Declaration, FieldRules } from './rules.ts';

/** Fields of a command. Its `subject` names an attempt, an exam, a job, a notification, or the account of a notice to its owner. */
export const COMMAND_FIELDS = {
  _id: 'no person',
  v: 'no person',
  queue: 'no person',
  key: { kept: 'makes a repeat a replay; its parts are the id of an attempt and the source event of a service' },
  live: 'no person',
  subject: 'no person',
  organizationId: 'no person',
  cause: { kept: 'ids of a request and of a trace, which the gateway makes for each request' },
  status: 'no person',
  attempts: 'no person',
  maxAttempts: 'no person',
  lapses: 'no person',
  nextRunAt: 'no person',
  lockedUntil: 'no person',
  dueAt: 'no person',
  workerId: 'no person',
  session: 'no person',
  fence: 'no person',
  body: 'removed',
  progress: 'no person',
  result: 'no person',
  lastError: 'no person',
  failing: 'no person',
  failingSince: 'no person',
  movedAt: 'no person',
  replays: 'no person',
  letter: 'no person',
  createdAt: 'no person',
  settledAt: 'no person',
} as const satisfies FieldRules<Command>;

/** Parts of bodies that are about a person: the student of the attempt, metadata of a client's TIMEOUT event, and remarks on an essay. */
export const PERSONAL_PARTS = [
  'body.studentId',
  'body.client',
  'body.handoff.feedback',
  'body.handoff.criteria',
] as const;

/**
 * Notices to the owner of an account are deleted. Commands of an attempt stay, because their keys make a repeat a replay; the student
 * and the remarks in them go. A dead one is deleted: replayed after the erasure, it would grade the attempt without its texts.
 * `body.handoff.gradedById` names a teacher and stays with the grade.
 */
export const COMMANDS_DECLARATION = {
  links: [
    // A bulk act for a person goes on under the pseudonym, so that its end is in the audit. The letters of the person are deleted.
    {
      by: 'person',
      field: 'subject',
      pending: { queue: 'upkeep:deadletters' satisfies Queue },
      erase: { update: ({ pseudonym }) => ({ $set: { subject: pseudonym, 'body.filter.subject': pseudonym } }) },
    },
    {
      by: 'person',
      field: 'subject',
      erase: 'delete',
      // A worker that is sending the notice would store an event about the person after the erasure.
      waits: (now) => ({ lockedUntil: { $gt: now } }),
    },
    {
      by: 'attempt',
      field: 'subject',
      // A dead bulk act for an attempt names no person, and has its end in the audit once it is replayed.
      pending: { status: 'DEAD', queue: { $ne: 'upkeep:deadletters' satisfies Queue } },
      erase: 'delete',
    },
    {
      by: 'attempt',
      field: 'subject',
      pending: { $or: PERSONAL_PARTS.map((field) => ({ [field]: { $ne: null } })) },
      erase: { update: () => [{ $unset: [...PERSONAL_PARTS] }] },
    },
  ],
  fields: { ...COMMAND_FIELDS, subject: 'with its row' },
} as const satisfies Declaration<Command>;
