// A zip archive whose bytes depend on names and contents alone.
import { crc32 } from "node:zlib";

const EPOCH_DATE = 0x0021; // 1980-01-01, the first day that a zip can tell
const UTF8_NAMES = 0x0800;
const STORED = 0;
const VERSION = 20;
const UNIX_FILE = (3 << 8) | VERSION;
const MODE = (0o100644 << 16) >>> 0;

export function zip(files) {
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const [name, content] of files) {
    const entry = common(Buffer.from(name, "utf8"), content);
    const local = Buffer.concat([number(0x04034b50, 4), number(VERSION, 2), ...entry.head, entry.name]);
    directory.push(
      Buffer.concat([
        number(0x02014b50, 4), number(UNIX_FILE, 2), number(VERSION, 2), ...entry.head,
        number(0, 2), number(0, 2), number(0, 2), number(MODE, 4), number(offset, 4), entry.name,
      ]),
    );
    parts.push(local, content);
    offset += local.length + content.length;
  }
  const central = Buffer.concat(directory);
  const count = number(directory.length, 2);
  const end = [
    number(0x06054b50, 4), number(0, 2), number(0, 2), count, count, number(central.length, 4), number(offset, 4), number(0, 2),
  ];
  return Buffer.concat([...parts, central, ...end]);
}

/** What the entry and its line in the directory have in common, from the flags to the length of the extra field. */
function common(name, content) {
  const size = number(content.length, 4);
  const head = [
    number(UTF8_NAMES, 2), number(STORED, 2), number(0, 2), number(EPOCH_DATE, 2), number(crc32(content), 4),
    size, size, number(name.length, 2), number(0, 2),
  ];
  return { head, name };
}

function number(value, bytes) {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntLE(value, 0, bytes);
  return buffer;
}
