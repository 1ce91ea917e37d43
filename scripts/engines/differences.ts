import type { EngineName } from '#scripts/services/mongodb.ts';
import type { Feature } from './features.ts';

/** A difference between an engine and the manual, with the product's workaround. */
export interface Difference {
  readonly title: string;
  readonly engines: readonly EngineName[];
  /** Features whose rows in the document link to this difference. */
  readonly features: readonly Feature[];
  readonly manual: string;
  readonly differs: string;
  /** The workaround and the file that contains it. */
  readonly workaround: string;
  /** Cost of the workaround on a real mongod. */
  readonly cost: string;
}

export const DIFFERENCES: readonly Difference[] = [
  {
    title: "MongoDB's time beside a stored date",
    engines: ['python'],
    features: ['variable $$NOW', 'expression $toLong'],
    manual: '`$$NOW` is a date and compares with a stored one by time.',
    differs:
      'Their types differ and are compared first, in `$expr` too: a deadline would never pass. `$subtract` of the two fails.',
    workaround:
      '`NOW_MS` and `msOf` in `shared/infra/mongo/guarded-update.ts` compare Unix milliseconds; [note 2](design-notes.md#n2).',
    cost: 'a conversion for each operand. It hides a field from indexes, so it stays in pipelines, where no index is used.',
  },
  {
    title: 'Arithmetic with dates',
    engines: ['rust'],
    features: ['expression $add', 'expression $subtract'],
    manual: '`$add` takes one date and milliseconds, `$subtract` two dates.',
    differs: 'In updates both are refused as "a construct the Rust server does not support". Numbers are fine.',
    workaround: '`nowPlus` in `shared/infra/mongo/guarded-update.ts` adds numbers and converts the sum to a date.',
    cost: 'two conversions for each new lease or due time.',
  },
  {
    title: 'An operator beside `_id` in a filter',
    engines: ['python'],
    features: ['command findAndModify', 'command update'],
    manual: 'The index of `_id` finds the document, independent of other conditions in the filter.',
    differs:
      '`{_id, $expr}` reads the whole collection: 80 ms at 4,000 rows, where `{_id}` takes 2 ms. As published, `findAndModify` always ' +
      'does; `scripts/services/secantusdb.py` corrects that.',
    workaround:
      'The filter of a guarded update is `_id` with the shard key, and its conditions are part of the pipeline. The product would do so anyway, because ' +
      'the returned document explains a refusal; [note 1](design-notes.md#n1).',
    cost:
      'small: a refused update runs the pipeline on the document and returns it, where a condition in the filter would return nothing. It ' +
      'writes nothing, because the result equals the document.',
  },
  {
    title: 'Lower bounds in descending indexes',
    engines: ['python'],
    features: ['query $gte', 'index key=-1'],
    manual: '`$gte` includes its bound.',
    differs: 'In an index that descends after an equality, rows at the bound are missing. `$gt` is right.',
    workaround:
      '`shared/infra/mongo/notification/delivery-attempts.ts` uses `$gt` with a bound one millisecond earlier.',
    cost: 'none.',
  },
  {
    title: 'Bounds of a hinted index',
    engines: ['python', 'rust'],
    features: ['option find.hint', 'option aggregate.hint'],
    manual: 'A hint chooses the index, and the filter bounds the part that is read.',
    differs:
      'All of the index is read. For 6 of 6,000 rows the Python one takes 107 ms instead of 2, the Rust one 3.3 instead of 0.6.',
    workaround:
      '`shared/infra/mongo/notification/inbox.ts` passes no hint if the filter names a user. Other hints stay, because a planner that ' +
      'compared its indexes on few rows may choose the wrong one.',
    cost: 'none.',
  },
  {
    title: 'Long lists of ids in a write',
    engines: ['python'],
    features: ['query $in'],
    manual: 'The index finds each id of the list.',
    differs:
      'As published, each row is compared with the whole list, by a function call an entry: 1,000 ids of 6,000 rows take 2 s.',
    workaround: 'None in the product. `scripts/services/secantusdb.py` compares texts without that call: 0.14 s.',
    cost: 'none.',
  },
  {
    title: 'Keys that an update frees or takes',
    engines: ['rust'],
    features: ['index unique', 'index partialFilterExpression'],
    manual:
      'A row that leaves a unique index frees its key at once. An update that moves a row to a taken key is refused like an insert.',
    differs:
      'As published, the key stays taken for ever if an update changes it, unsets it or leaves the partial filter. A key that an ' +
      'update adds is not claimed.',
    workaround:
      'None in the product. `npm run engine` builds the engine with `scripts/services/secantus-storage.patch`.',
    cost: 'none.',
  },
  {
    title: 'Acknowledged writes and kill -9',
    engines: ['python', 'rust'],
    features: ['option writeConcern.j'],
    manual: 'With `j: true` an acknowledged write survives the death of the process.',
    differs: 'The last writes may be lost, unless the engine is started with `--sync-on-commit`.',
    workaround:
      '`npm start` passes the option (`scripts/services/secantusdb.ts`), and so do tests that kill the engine.',
    cost: 'none.',
  },
  {
    title: 'Partial indexes with their own condition as a key',
    engines: ['python', 'rust'],
    features: ['index partialFilterExpression'],
    manual: 'A filter returns the same rows, whichever index the server chooses.',
    differs:
      'The index `due` has `status` among its keys and holds pending commands only. A filter by `status` and by a field outside this index ' +
      'returns no row. With a hint, or if the condition is not a key of the index, the rows are right. `updateOne` and `updateMany` take a hint ' +
      'and do not use it: they change no row, unless `status` is compared by `$in`.',
    workaround:
      'Such reads name an index, for example those of due commands in turns (`shared/infra/mongo/mailbox/due.ts`). New partial indexes leave their ' +
      'condition out of their keys.',
    cost: 'none.',
  },
  {
    title: 'Causal reads after a restart',
    engines: ['rust'],
    features: ['option readConcern.afterClusterTime', 'option transaction.readConcern.afterClusterTime'],
    manual: 'A server takes over a later `$clusterTime` from its clients, so its clock never seems to go back.',
    differs:
      'It takes over no time, and a restart begins the count of the current second anew. For up to a second, a read of an earlier ' +
      'time of that second is refused with code 72.',
    workaround:
      '`isOutage` in `shared/infra/mongo/faults.ts` treats it as an outage: the run is repeated and spends no attempt.',
    cost: 'none.',
  },
  {
    title: 'Plans that `explain` shows',
    engines: ['python'],
    features: [],
    manual: '`explain` shows the index that serves a filter.',
    differs: 'A filter with a second condition is shown as a scan, although an index finds its rows.',
    workaround:
      'None in the product. `scripts/testing/stores/plans.ts` explains the part of a filter that an index shares.',
    cost: 'none.',
  },
];
