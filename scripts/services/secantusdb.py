"""Starts SecantusDB, the stand-in for MongoDB, tuned for this project.

This file runs inside SecantusDB's process, never inside one of ours, and is offered under the same licence as
SecantusDB (GPL-2.0). It changes how fast and how patient the stand-in is, not what it answers: a real MongoDB needs
neither.
"""

import datetime
import sys

from secantus import query
from secantus.cli import main
from secantus.server import SecantusDBServer
from secantus.storage import Storage

# A process that is killed in the middle of a transaction leaves it open, and every document that it wrote locked,
# for this long.
SecantusDBServer.__init__.__kwdefaults__["transaction_lifetime_seconds"] = float(sys.argv.pop(1))

_keys_by_index = Storage._try_index_id_keys


def _keys_by_id_or_index(self, db, coll, filter, **options):
    # findAndModify writes under {_id, $and: [query]}; the planner reads an operator at the top of a filter as "no
    # index", and every save would scan the collection. The caller still holds each candidate against the whole filter.
    if filter and filter.keys() == {"_id", "$and"}:
        filter = {"_id": filter["_id"]}
    return _keys_by_index(self, db, coll, filter, **options)


Storage._try_index_id_keys = _keys_by_id_or_index


_matches_by_operator = query._op_matches


def _in_list_of_text(values, op, arg, collation=None, *args, **options):
    # It compares a row with each entry of a list by a function of its own: a write to 1,000 ids of 6,000 rows takes two
    # seconds. A text that is in the list matches, whatever else the list holds.
    if op == "$in" and collation is None and isinstance(arg, list):
        if any(type(value) is str and value in arg for value in values):
            return True
    return _matches_by_operator(values, op, arg, collation, *args, **options)


query._op_matches = _in_list_of_text


FIRST_DATE = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def _prune_by_index(self, db, coll, *, now=None):
    # Its own sweep reads every document of a collection, each minute, under the one lock that all commands need: beside some
    # ten thousand rows nobody else gets a word in. This one asks the index for what has expired, as mongod does.
    now = now or datetime.datetime.now(datetime.timezone.utc)
    pruned = 0
    for _name, keys, options in list(self._iter_indexes(db, coll)):
        if "expireAfterSeconds" not in options:
            continue
        [field] = keys
        before = now - datetime.timedelta(seconds=options["expireAfterSeconds"])
        # From below as well, or it walks past every document that has no such date.
        expired = {field: {"$gt": FIRST_DATE, "$lt": before}, **options.get("partialFilterExpression", {})}
        pruned += self.delete_matching(db, coll, expired)
    return pruned


Storage.prune_ttl = _prune_by_index

if __name__ == "__main__":
    main()
