// Prints every change of a feed as one line of JSON, and goes on behind the last finished transaction.
// 64-bit integers are strings in it: a JavaScript number holds 53 bits.
//
// usage: node consumer.js HOST:PORT FEED CURSOR_FILE
const fs = require('fs');
const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const protobuf = require('protobufjs');

const PROTO = path.join(__dirname, '..', '..', 'proto');
const FORMS = {longs: String, enums: String, defaults: true, oneofs: true};
const api = grpc.loadPackageDefinition(loader.loadSync('tidemark/v1/feed.proto', {...FORMS, keepCase: true, includeDirs: [PROTO]})).tidemark.v1;
const root = new protobuf.Root();
root.resolvePath = (origin, target) => path.resolve(PROTO, target);
const Value = root.loadSync('tidemark/v1/change.proto', {keepCase: true}).lookupType('tidemark.v1.Value');
const IMAGE = {IMAGE_AFTER: 'after', IMAGE_BEFORE: 'before', IMAGE_KEY: 'key'};

function plain(value) {
  const content = value[value.kind];
  if (value.kind === 'null') return null;
  if (value.kind === 'binary') return content.toString('base64');
  if (value.kind === 'list') return content.items.map(plain);
  if (value.kind === 'composite') return content.fields.map(plain);
  return typeof content === 'number' && !Number.isFinite(content) ? String(content) : content;
}

function asJson({schema, position, sequence, op, images}) {
  const line = {__op: op, __pos: position, __seq: sequence, __table: `${schema.schema_name}.${schema.table_name}`};
  const columns = op === 'delete' ? schema.key_columns.map((index) => schema.columns[index]) : schema.columns;
  (op === 'delete' ? images.key : images.after).forEach((value, i) => {
    if (value.kind) line[(columns[i].name.startsWith('__') ? '_' : '') + columns[i].name] = plain(value);
  });
  return JSON.stringify(line);
}

const incomplete = (item) => Object.values(item.images).some((image) => image.some((value) => value.kind === 'in_parts'));

// The items whose values are all there. One with values in parts waits for the last of them.
function* whole(items, parts, waiting) {
  for (const item of items) {
    if (incomplete(item)) waiting.push({item, data: {}});
    else yield item;
  }
  for (const part of parts) {
    const {item, data} = waiting[waiting.length - 1];
    const image = item.images[IMAGE[part.image]];
    (data[part.image + part.column] ??= []).push(part.data);
    if (part.last) image[part.column] = Value.toObject(Value.decode(Buffer.concat(data[part.image + part.column])), FORMS);
    if (!incomplete(item)) yield waiting.pop().item;
  }
}

function* changes(record, schemas, waiting) {
  if (record.rows) {
    const schema = schemas[record.rows.schema_id];
    yield* whole(record.rows.rows.map((row) => ({schema, position: row.position, sequence: row.sequence, op: 'read', images: {after: row.values}})),
                 record.rows.value_parts, waiting);
  }
  for (const transaction of record.batch?.transactions ?? []) {
    for (const run of transaction.runs) {
      const items = run.changes.map((change) => ({
        schema: schemas[run.schema_ids[change.table]], position: transaction.position,
        sequence: String(BigInt(run.first_sequence) + BigInt(change.ordinal)), op: change.op.slice(3).toLowerCase(),
        images: {after: change.after, before: change.before, key: change.key},
      }));
      yield* whole(items, run.value_parts, waiting);
    }
  }
}

function store(file, cursor) {
  const fd = fs.openSync(file + '.tmp', 'w');
  fs.writeSync(fd, cursor + '\n');
  fs.fsyncSync(fd);
  fs.closeSync(fd);
  fs.renameSync(file + '.tmp', file);
}

// One stream, until it ends or breaks. `printed`: what is printed of the log, also of a transaction that broke in the middle.
async function follow(client, feed, file, printed) {
  const start = fs.existsSync(file) ? {cursor: fs.readFileSync(file, 'utf8').trim()} : {snapshot: {}};
  const schemas = {}, waiting = [];
  for await (const record of client.Subscribe({feed, start, label: 'consumer.js'})) {
    if (record.table_schema) schemas[record.table_schema.schema_id] = record.table_schema;
    const lines = [];
    if (record.opened?.rows_follow && printed.rows) {  // the snapshot broke, and begins again at a later boundary
      lines.push('{"__record":"rows_again"}\n');
      Object.assign(printed, {position: '', sequence: '0'});
    }
    if (record.gap) lines.push(JSON.stringify({__record: 'gap', reason: record.gap.reason, detail: record.gap.detail}) + '\n');
    printed.rows ||= record.opened?.rows_follow;
    for (const item of changes(record, schemas, waiting)) {
      if (record.batch && (item.position < printed.position ||
          (item.position === printed.position && BigInt(item.sequence) <= BigInt(printed.sequence)))) continue;
      lines.push(asJson(item) + '\n');
      if (record.batch) Object.assign(printed, {position: item.position, sequence: item.sequence});
    }
    fs.writeSync(1, lines.join(''));
    const cursors = [...(record.batch?.transactions ?? []), record.rows, record.gap && {cursor: record.gap.to_cursor}, record.progress, record.closing].map((holder) => holder?.cursor).filter(Boolean);
    if (cursors.length > 0) store(file, cursors[cursors.length - 1]);
  }
}

async function main([server, feed, file]) {
  const client = new api.ChangeFeed(server, grpc.credentials.createInsecure());
  const printed = {position: '', sequence: '0', rows: false};
  for (;;) {
    try {
      await follow(client, feed, file, printed);
    } catch (error) {
      if (error.code !== grpc.status.UNAVAILABLE && error.code !== grpc.status.ABORTED) throw error;
      console.error(`${error.details}; trying again`);
      await new Promise((wake) => setTimeout(wake, 500));
    }
  }
}

main(process.argv.slice(2)).catch((error) => { console.error(error.message); process.exit(1); });
