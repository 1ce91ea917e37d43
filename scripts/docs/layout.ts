/** Longest line of a reply in a page, in characters. */
const WIDTH = 110;

/** Returns a value as JSON that people read: objects and lists on one line where they fit, else one member a line. */
export function layout(value: unknown, indent = '', used = 0): string {
  const line = onOneLine(value);
  if (typeof value !== 'object' || value === null || indent.length + used + line.length <= WIDTH) {
    // The body itself always shows its members one below the other.
    if (indent !== '' || typeof value !== 'object' || value === null) return line;
  }
  const inner = `${indent}  `;
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    return `[\n${value.map((item) => inner + layout(item, inner, 1)).join(',\n')}\n${indent}]`;
  }
  const members = Object.entries(value);
  if (members.length === 0) return '{}';
  const lines = members.map(([name, member]) => {
    const key = `${JSON.stringify(name)}: `;
    return inner + key + layout(member, inner, key.length + 1);
  });
  return `{\n${lines.join(',\n')}\n${indent}}`;
}

function onOneLine(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(onOneLine).join(', ')}]`;
  const members = Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}: ${onOneLine(member)}`);
  return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`;
}
