import type { Document } from 'mongodb';

/**
 * Kinds of features, in the order in which the document lists them. `option`: a field of a command beside its body. `index`: an option
 * of createIndexes.
 */
export const KINDS = [
  'command',
  'option',
  'query',
  'projection',
  'update',
  'stage',
  'accumulator',
  'expression',
  'variable',
  'index',
] as const;
export type FeatureKind = (typeof KINDS)[number];

/** One operator, option or command that a server must support, for example `query $gte`. */
export type Feature = `${FeatureKind} ${string}`;

/** Called for each feature of a command. */
type Add = (kind: FeatureKind, name: string) => void;
type Read = (add: Add, value: unknown) => void;

/**
 * Reports each feature that a command uses, possibly more than once. Reads only the structure of the command and never a user's value:
 * MongoDB's data are inserted documents, operands of a comparison, values of classic updates, and everything below `$literal`.
 */
export function readFeatures(command: Document, add: Add): void {
  const [name = ''] = Object.keys(command);
  add('command', name);
  for (const [field, value] of Object.entries(command)) {
    const read = BODIES[`${name}.${field}`];
    if (read !== undefined) read(add, value);
    else if (field !== name && !isOmitted(command, field)) readOption(add, optionName(command, name, field), value);
  }
}

/** Readers of the bodies of commands, by command and field. Every other field is an option. */
const BODIES: Readonly<Record<string, Read>> = {
  'find.filter': readFilter,
  'find.projection': readProjection,
  'findAndModify.query': readFilter,
  'findAndModify.fields': readProjection,
  'findAndModify.update': (add, update) => readUpdate(add, 'findAndModify.update', update),
  'insert.documents': () => undefined,
  'update.updates': (add, updates) => readStatements(add, 'update', updates),
  'delete.deletes': (add, deletes) => readStatements(add, 'delete', deletes),
  'aggregate.pipeline': readPipeline,
  'createIndexes.indexes': (add, indexes) => each(indexes, (index) => readIndex(add, index)),
  'getMore.collection': () => undefined,
  'killCursors.cursors': () => undefined,
  'listCollections.filter': readFilter,
};

/**
 * Returns whether a field does not count as a feature: the database of a message, or the transaction number of a command in a transaction. Outside of a
 * transaction, the number is a feature, because it makes a write retryable.
 */
function isOmitted(command: Document, field: string): boolean {
  return field === '$db' || (field === 'txnNumber' && 'autocommit' in command);
}

/** Options that mean the same in every command. */
const COMMON = ['lsid', 'txnNumber', 'autocommit', 'startTransaction', 'readConcern', 'writeConcern', 'maxTimeMS'];
/** Options that contain further options. */
const HOLDERS = ['readConcern', 'transaction.readConcern', 'writeConcern', '$readPreference', 'aggregate.cursor'];
/** Options whose value is part of the feature, because it is a word of the protocol. */
const WORDS = [
  'readConcern.level',
  'transaction.readConcern.level',
  'writeConcern.w',
  '$readPreference.mode',
  'delete.limit',
];

/** Returns the name of an option. The read concern in the first command of a transaction applies to all its commands and has its own name. */
function optionName(command: Document, name: string, field: string): string {
  if (field === 'readConcern' && 'startTransaction' in command) return `transaction.${field}`;
  return COMMON.includes(field) || field.startsWith('$') ? field : `${name}.${field}`;
}

function readOption(add: Add, name: string, value: unknown): void {
  if (value === undefined) return;
  if (HOLDERS.includes(name)) for (const [field, part] of partsOf(value)) readOption(add, `${name}.${field}`, part);
  else add('option', WORDS.includes(name) || value === false ? `${name}=${value}` : name);
}

/** Statements of an update or delete command. */
function readStatements(add: Add, name: 'update' | 'delete', statements: unknown): void {
  each(statements, (statement) => {
    for (const [field, value] of fieldsOf(statement)) {
      if (field === 'q') readFilter(add, value);
      else if (field === 'u') readUpdate(add, 'update.u', value);
      else readOption(add, `${name}.${field}`, value);
    }
  });
}

function readIndex(add: Add, index: unknown): void {
  for (const [field, value] of fieldsOf(index)) {
    if (field === 'name') continue;
    if (field !== 'key') add('index', field);
    else for (const [, direction] of partsOf(value)) add('index', `key=${direction}`);
    // A filter by equality has no operator.
    if (field === 'partialFilterExpression') readFilter((_, name) => add('index', `${field}.${name}`), value);
  }
}

function readFilter(add: Add, filter: unknown): void {
  for (const [field, value] of fieldsOf(filter)) {
    if (!field.startsWith('$')) {
      readCondition(add, value);
      continue;
    }
    add('query', field);
    if (field === '$expr') readExpression(add, value);
    else each(value, (part) => readFilter(add, part));
  }
}

/** Reads the condition of one field. MongoDB treats a document whose first field is not an operator as a value to compare with. */
function readCondition(add: Add, condition: unknown): void {
  if (condition instanceof RegExp) add('query', '$regex');
  if (!holdsOperators(condition)) return;
  for (const [operator, operand] of fieldsOf(condition)) {
    add('query', operator);
    if (operator === '$not') readCondition(add, operand);
    if (operator === '$elemMatch') readElement(add, operand);
  }
}

/** Reads the condition of one element of an array, which may be a document or another value. */
function readElement(add: Add, condition: unknown): void {
  if (holdsOperators(condition)) readCondition(add, condition);
  else readFilter(add, condition);
}

/** Operators that exist in projections only; any other is an expression. */
const PROJECTIONS = ['$slice', '$elemMatch', '$meta'];

function readProjection(add: Add, projection: unknown): void {
  for (const [, value] of fieldsOf(projection)) {
    const [operator = ''] = Object.keys(value ?? {});
    if (PROJECTIONS.includes(operator)) add('projection', operator);
    else readExpression(add, value);
  }
}

const ADDING = ['$push', '$addToSet'];

function readUpdate(add: Add, name: string, update: unknown): void {
  if (Array.isArray(update)) {
    add('option', `${name}=pipeline`);
    readPipeline(add, update);
  } else if (holdsOperators(update)) {
    for (const [operator, fields] of fieldsOf(update)) readUpdateOperator(add, operator, fields);
  } else {
    add('option', `${name}=replacement`);
  }
}

function readUpdateOperator(add: Add, operator: string, fields: unknown): void {
  add('update', operator);
  for (const [, value] of fieldsOf(fields)) {
    if (operator === '$pull') readElement(add, value);
    // Without $each, the value is an element and its fields are data.
    if (!ADDING.includes(operator) || !isPlain(value) || !('$each' in value)) continue;
    for (const modifier of Object.keys(value)) add('update', `${operator}.${modifier}`);
  }
}

/** Stages whose content is read. For any other stage, only the name is a feature; add a stage here when the product begins to use it. */
const STAGES: Readonly<Record<string, Read>> = {
  $match: readFilter,
  $group: readGroup,
  $project: readExpression,
  $addFields: readExpression,
  $set: readExpression,
};

function readPipeline(add: Add, pipeline: unknown): void {
  each(pipeline, (stage) => {
    for (const [name, content] of fieldsOf(stage)) {
      add('stage', name);
      STAGES[name]?.(add, content);
    }
  });
}

function readGroup(add: Add, group: unknown): void {
  for (const [field, value] of fieldsOf(group)) {
    if (field === '_id') {
      readExpression(add, value);
      continue;
    }
    for (const [accumulator, operand] of fieldsOf(value)) {
      add('accumulator', accumulator);
      readExpression(add, operand);
    }
  }
}

/** Matches variables of MongoDB. Variables that an expression declares itself begin with a small letter; $map and $filter declare `this`. */
const VARIABLE = /^\$\$([A-Z_]+|this|value)(?:\.|$)/;

function readExpression(add: Add, expression: unknown): void {
  if (typeof expression === 'string') {
    const [, variable] = expression.startsWith('$$') ? (VARIABLE.exec(expression) ?? []) : [];
    if (variable !== undefined) add('variable', `$$${variable}`);
  } else if (Array.isArray(expression)) {
    for (const part of expression) readExpression(add, part);
  } else if (isPlain(expression)) {
    for (const name of Object.keys(expression)) {
      if (name.startsWith('$')) add('expression', name);
      if (name !== '$literal') readExpression(add, expression[name]);
    }
  }
}

function each(list: unknown, read: (item: unknown) => void): void {
  if (Array.isArray(list)) for (const item of list) read(item);
}

/** Returns whether a value is a document and not another BSON type such as a date or an id. */
function isPlain(value: unknown): value is Document {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function fieldsOf(value: unknown): [string, unknown][] {
  return isPlain(value) ? Object.entries(value) : [];
}

/** Returns the fields of an object that the driver creates: an instance of its classes, or a map if the order matters. */
function partsOf(value: unknown): [string, unknown][] {
  return value instanceof Map ? [...value] : Object.entries(value ?? {});
}

function holdsOperators(value: unknown): boolean {
  return fieldsOf(value)[0]?.[0].startsWith('$') === true;
}
