import { newestOfAll } from '#infra/mongo/auth/login-events.ts';
import { clusterHash } from '#infra/mongo/cluster-key.ts';
import { tombstoneId } from '#infra/mongo/erased-persons.ts';
import { type AuditFilter, auditView, readAuditPage } from '#infra/mongo/operations/audit.ts';
import { type AuditRow, auditFacts, type Noted, verifyAudit } from '#infra/mongo/operator-audit.ts';
import { countedAs, readAddress } from '#infra/net/ip-address.ts';
import { openKeyedHash } from '#infra/net/keyed-hash.ts';
import { atCursor, type CliCommands, type Flags, limitOf, type Operator } from './operator.ts';
import { nextPage, print, Refused, table, WrongUsage } from './output.ts';

export const EVIDENCE_COMMANDS: CliCommands = {
  'audit list': {
    summary: 'list operator actions, newest first; also `audit` alone',
    options: ['act', 'by', 'audit-subject', 'limit', 'cursor', 'json'],
    examples: ['audit', 'audit list --act dead.drop --by OPS_TOKEN', 'audit list --limit 100 --json'],
    run: listAudit,
  },
  'audit verify': {
    summary: 'check the chain of the audit and print its head',
    details: 'Note the head outside this database: without it, nobody can see that the newest rows were deleted.',
    options: ['from', 'json'],
    examples: ['audit verify', 'audit verify --from 41:9f2c…'],
    run: verify,
  },
  events: {
    summary: 'list security events of all accounts, or of an address, newest first',
    options: ['address', 'limit', 'json'],
    examples: ['events', 'events --address 203.0.113.7'],
    run: listEvents,
  },
  hash: {
    summary: 'print the two digests under which logs and the audit name a person',
    details: `\`actor\` names the caller in request lines of the logs. \`subject\` names the person in the audit: pass it to
\`audit --subject\` to list who read, exported or erased the data.
Nothing is read from the database but the key of these digests.`,
    args: { '<id>': 'id of a student, a teacher or any other caller' },
    options: ['json'],
    examples: ['hash student-7'],
    run: printHash,
  },
};

async function printHash(operator: Operator, [id = '']: string[], flags: Flags): Promise<number> {
  const hash = await clusterHash(operator.mongo);
  const actor = hash('actor', id);
  const subject = await tombstoneId(operator.mongo, id);
  return print(operator, flags, { id, actor, subject }, () => [`actor    ${actor}`, `subject  ${subject}`]);
}

async function listAudit(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const limit = limitOf(flags, 20);
  const { act: action, by, subject } = flags;
  const filter: AuditFilter = {
    ...(action === undefined ? {} : { action }),
    ...(by === undefined ? {} : { operator: by }),
    ...(subject === undefined ? {} : { subject }),
  };
  const page = atCursor(await readAuditPage(operator.mongo, filter, flags.cursor ?? null, limit));
  const list = auditView(page);
  const factsOf = (row: AuditRow) => auditFacts(row).map(([name, value]) => `${name} ${value}`);
  return print(operator, flags, list, () => [
    ...table(page.rows, {
      at: ({ at }) => at,
      operator: (row) => row.operator,
      action: (row) => row.action,
      queue: (row) => ('queue' in row ? row.queue : null),
      on: (row) => ('commandId' in row ? row.commandId : row.subject),
      reason: ({ reason }) => reason,
      detail: (row) => factsOf(row).join(', ') || null,
    }),
    ...nextPage(list),
  ]);
}

const PLACE = /^([1-9]\d{0,11}):([0-9a-f]{64})$/;

/** Walks the chain of the audit and prints its head, which a later call compares with the rows. Returns 1 at the first fault. */
async function verify(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const [, seq, hash = ''] = PLACE.exec(flags.from ?? '') ?? [];
  if (flags.from !== undefined && seq === undefined)
    throw new WrongUsage('--from must be SEQ:HASH, as `examhall audit verify` printed it');
  const noted: Noted | null = seq === undefined ? null : { seq: Number(seq), hash };
  const { fault, intact, head } = await verifyAudit(operator.mongo, noted);
  const first = noted?.seq ?? 1;
  const code = print(operator, flags, { fault, intact, first, head }, () => [
    head === null ? 'no row of the chain is in order' : `rows ${first} to ${head.seq} are in order`,
    ...(head === null || fault !== null ? [] : [`head, to be noted outside this database: ${head.seq}:${head.hash}`]),
  ]);
  if (fault !== null) throw new Refused(fault);
  return code;
}

/** Lists security events of all accounts, newest first: with `--address`, those of this address under the present secret. */
async function listEvents(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const limit = limitOf(flags, 20);
  const address = flags.address === undefined ? undefined : readAddress(flags.address);
  if (address === null) throw new WrongUsage('--address must be an IPv4 or IPv6 address');
  const { secret } = operator.settings.jwt;
  if (address !== undefined && secret === '')
    throw new WrongUsage('--address needs AUTH_JWT_SECRET, under a key of which addresses are stored');
  const hash = address && openKeyedHash(secret)('address', countedAs(address));
  if (hash !== undefined) operator.note(`hash of the address: ${hash}`);
  const events = await newestOfAll(operator.mongo, { limit, ...(hash === undefined ? {} : { address: hash }) });
  return print(operator, flags, events, () =>
    table(events, {
      at: ({ at }) => at,
      event: ({ type }) => type,
      account: ({ accountId }) => accountId,
      session: ({ sessionId }) => sessionId,
      detail: ({ metadata }) => JSON.stringify(metadata),
    }),
  );
}
