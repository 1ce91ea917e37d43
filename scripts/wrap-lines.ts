/** Maximum width of a line of prose in a generated document, in characters. */
const WIDTH = 140;

/** Breaks a text at its blanks into lines of at most 140 characters. Each line after the first begins with `indent`. */
export function wrapLines(text: string, indent = ''): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = `${indent}${word}`;
    } else {
      line += line === '' ? word : ` ${word}`;
    }
  }
  return [...lines, line].join('\n');
}
