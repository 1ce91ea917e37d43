"""Starts SecantusDB, the stand-in for MongoDB, tuned for this project.

This file runs inside SecantusDB's process, never inside one of ours, and is licensed like SecantusDB (GPL-2.0). It
changes the speed and a time limit of the stand-in, not its replies. A real MongoDB needs none of these changes.
"""

import collections
import datetime
import sys

import bson
from secantus import query, transactions
from secantus.cli import main
from secantus.server import SecantusDBServer
from secantus.storage import Storage
from secantus.transactions import TransactionRegistry

# If a process is killed inside a transaction, the documents that it wrote stay locked for this many seconds.
SecantusDBServer.__init__.__kwdefaults__["transaction_lifetime_seconds"] = float(sys.argv.pop(1))

_keys_by_index = Storage._try_index_id_keys


def _is_id_with_fields(filter):
    return len(filter) > 1 and isinstance(filter.get("_id"), str) and not any(field.startswith("$") for field in filter)


def _keys_by_id_or_index(self, db, coll, filter, **options):
    # findAndModify filters by {_id, $and: [query]}. The planner uses no index if an operator is at the top of a filter,
    # so every save would scan the collection. For {_id, field} it examines every index before that of _id, which takes
    # longer than the read. The caller still checks each candidate against the whole filter.
    if filter and (filter.keys() == {"_id", "$and"} or _is_id_with_fields(filter)):
        filter = {"_id": filter["_id"]}
    return _keys_by_index(self, db, coll, filter, **options)


Storage._try_index_id_keys = _keys_by_id_or_index


_matches_by_operator = query._op_matches


def _in_list_of_text(values, op, arg, collation=None, *args, **options):
    # SecantusDB compares a row with each entry of a list by a function call: a write to 1,000 ids of 6,000 rows takes
    # two seconds. A text that is in the list matches, so no other comparison is needed.
    if op == "$in" and collation is None and isinstance(arg, list):
        if any(type(value) is str and value in arg for value in values):
            return True
    return _matches_by_operator(values, op, arg, collation, *args, **options)


query._op_matches = _in_list_of_text


_init_registry = TransactionRegistry.__init__


def _init_with_ordered_records(self, *args, **options):
    _init_registry(self, *args, **options)
    self._retryable = collections.OrderedDict()


def _prune_oldest_records(self):
    # SecantusDB visits every record of the last 30 minutes at each write, and sorts them once there are 10,000: after a few
    # thousand saves that takes most of its time. The records are in the order of their times, so the oldest are in front.
    records = self._retryable
    cutoff = self._time() - transactions._RETRYABLE_RECORD_LIFETIME_SECONDS
    while records:
        _reply, at, _identity = next(iter(records.values()))
        if at >= cutoff and len(records) <= transactions._RETRYABLE_RECORD_MAX:
            return
        records.popitem(last=False)


class _EncodedReply:
    """A reply as bytes. A deep copy of it is the reply that the server sends for a repeated write."""

    __slots__ = ("_bytes",)

    def __init__(self, reply):
        self._bytes = bson.encode(reply)

    def __deepcopy__(self, memo):
        return bson.decode(self._bytes)


def _encoded_reply(reply):
    # SecantusDB keeps a deep copy of 10,000 replies: 80 KB for a save, all of which Python's garbage collector visits. After
    # 10,000 saves it had 760 MB.
    return _EncodedReply({key: value for key, value in reply.items() if key not in ("writeConcernError", "errorLabels")})


transactions._strip_per_attempt_fields = _encoded_reply
TransactionRegistry.__init__ = _init_with_ordered_records
TransactionRegistry._prune_retryable_locked = _prune_oldest_records


FIRST_DATE = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def _prune_by_index(self, db, coll, *, now=None):
    # SecantusDB's own sweep reads every document of a collection each minute, under the one lock that all commands need.
    # With ten thousand rows it blocks all other commands. This sweep finds the expired rows by the index, as mongod does.
    now = now or datetime.datetime.now(datetime.timezone.utc)
    pruned = 0
    for _name, keys, options in list(self._iter_indexes(db, coll)):
        if "expireAfterSeconds" not in options:
            continue
        [field] = keys
        before = now - datetime.timedelta(seconds=options["expireAfterSeconds"])
        # A lower bound too: otherwise the index scan would pass every document without such a date.
        expired = {field: {"$gt": FIRST_DATE, "$lt": before}, **options.get("partialFilterExpression", {})}
        pruned += self.delete_matching(db, coll, expired)
    return pruned


Storage.prune_ttl = _prune_by_index

if __name__ == "__main__":
    main()
