"""Prints every change of a feed as one line of JSON, and goes on behind the last finished transaction.

usage: consumer.py HOST:PORT FEED CURSOR_FILE
"""
import base64, json, math, os, sys, time
import grpc
from tidemark.v1 import change_pb2 as change, feed_pb2 as feed, feed_pb2_grpc


def plain(value):
    kind = value.WhichOneof("kind")
    content = getattr(value, kind)
    if kind == "null": return None
    if kind == "binary": return base64.b64encode(content).decode()
    if kind in ("list", "composite"): return [plain(item) for item in (content.items if kind == "list" else content.fields)]
    return str(content) if isinstance(content, float) and not math.isfinite(content) else content


def as_json(schema, position, sequence, op, images):
    names = [("_" if column.name.startswith("__") else "") + column.name for column in schema.columns]
    row = zip([names[i] for i in schema.key_columns], images[change.IMAGE_KEY]) if op == "delete" else zip(names, images[change.IMAGE_AFTER])
    line = {"__op": op, "__pos": position, "__seq": sequence, "__table": f"{schema.schema_name}.{schema.table_name}"}
    return json.dumps({**line, **{name: plain(value) for name, value in row if value.WhichOneof("kind")}}, separators=(",", ":"))


def whole(items, parts, waiting):
    """The items whose values are all there. One with values in parts waits for the last of them."""
    incomplete = lambda item: any(value.HasField("in_parts") for image in item[-1].values() for value in image)
    for item in items:
        waiting.append((item, {}))
        if not incomplete(item): yield waiting.pop()[0]
    for part in parts:
        item, so_far = waiting[-1]
        data = so_far.setdefault((part.image, part.column), bytearray())
        data += part.data
        if part.last: item[-1][part.image][part.column].ParseFromString(bytes(data))
        if not incomplete(item): yield waiting.pop()[0]


def changes(record, schemas, waiting):
    """(schema, position, sequence, op, images) of the current rows or of the changes in a record."""
    yield from whole([(schemas[record.rows.schema_id], row.position, row.sequence, "read", {change.IMAGE_AFTER: row.values})
                      for row in record.rows.rows], record.rows.value_parts, waiting)
    for transaction, run in [(transaction, run) for transaction in record.batch.transactions for run in transaction.runs]:
        yield from whole([(schemas[run.schema_ids[c.table]], transaction.position, run.first_sequence + c.ordinal, change.Op.Name(c.op)[3:].lower(),
                           {change.IMAGE_AFTER: c.after, change.IMAGE_BEFORE: c.before, change.IMAGE_KEY: c.key})
                          for c in run.changes], run.value_parts, waiting)


def store(path, cursor):
    with open(path + ".tmp", "w") as file:
        file.write(cursor + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def follow(stub, name, path, state):
    """One stream, until it ends or breaks. `state`: what is printed of the log, also of a transaction that broke in the middle."""
    saved = open(path).read().strip() if os.path.exists(path) else None
    start = feed.Start(cursor=saved) if saved is not None else feed.Start(snapshot=feed.Unit())
    schemas, waiting = {}, []
    try:
        for record in stub.Subscribe(feed.SubscribeRequest(feed=name, start=start, label="consumer.py")):
            if record.HasField("table_schema"): schemas[record.table_schema.schema_id] = record.table_schema
            if record.opened.rows_follow and state["rows"]:  # the snapshot broke, and begins again at a later boundary
                print('{"__record":"rows_again"}')
                state["printed"] = ("", -1)
            state["rows"] = state["rows"] or record.opened.rows_follow
            if record.HasField("gap"): print(json.dumps({"__record": "gap", "reason": record.gap.reason, "detail": record.gap.detail}, separators=(",", ":")))
            for item in changes(record, schemas, waiting):
                if record.HasField("batch") and item[1:3] <= state["printed"]: continue
                print(as_json(*item))
                if record.HasField("batch"): state["printed"] = item[1:3]
            sys.stdout.flush()
            cursors = [t.cursor for t in record.batch.transactions] + [record.rows.cursor, record.gap.to_cursor, record.progress.cursor, record.closing.cursor]
            if any(cursors): store(path, [cursor for cursor in cursors if cursor][-1])
    except grpc.RpcError as error:
        if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED): raise
        print(f"{error.code().name}: {error.details()}; trying again", file=sys.stderr)
        time.sleep(0.5)


if __name__ == "__main__":
    server, name, path = sys.argv[1:]
    stub, state = feed_pb2_grpc.ChangeFeedStub(grpc.insecure_channel(server)), {"printed": ("", -1), "rows": False}
    while True: follow(stub, name, path, state)
