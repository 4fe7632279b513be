// Its version, then what Node's llhttp makes of each message of a table: one line "name TAB meaning", the meaning as oracle_test.c writes it.
'use strict';
const fs = require('fs');
const { HTTPParser } = require('_http_common');
const { methods } = process.binding('http_parser');

const ESCAPES = { r: '\r', n: '\n', t: '\t', '"': '"', '\\': '\\' };

function unescape(text) {
	return Buffer.from(text.replace(/\\(x[0-9a-f]{2}|.)/g, (all, c) =>
		c[0] === 'x' ? String.fromCharCode(parseInt(c.slice(1), 16)) : ESCAPES[c]), 'latin1');
}

function escape(text) {
	return text.replace(/[^\x20-\x7e]|\\/g, (c) =>
		c === '\r' ? '\\r' : c === '\n' ? '\\n' : '\\x' + c.charCodeAt(0).toString(16).padStart(2, '0'));
}

function meaning(kind, bytes) {
	const parser = new HTTPParser();
	const request = kind === 'request';
	let start = '', fields = [], body = '', headed = false, done = false;

	parser.initialize(request ? HTTPParser.REQUEST : HTTPParser.RESPONSE, {}, 1 << 20, 0);
	// Many fields come in batches before the head is complete.
	parser[HTTPParser.kOnHeaders] = (list, url) => { if (!headed) { fields.push(...list); start += url; } };
	parser[HTTPParser.kOnHeadersComplete] = (major, minor, list, method, url, status) => {
		if (done)
			return 0;
		if (status >= 100 && status < 200 && status !== 101) {
			fields = [];
			return 0;
		}
		headed = true;
		fields.push(...(list || []));
		start = request ? `${methods[method]} ${start + (url || '')}` : `${status}`;
		return kind === 'response-head' ? 1 : 0;
	};
	parser[HTTPParser.kOnBody] = (piece) => { if (!done) body += piece.latin1Slice(); };
	parser[HTTPParser.kOnMessageComplete] = () => { done = done || headed; };
	let result = parser.execute(bytes);
	if (!(result instanceof Error) && !done)
		result = parser.finish();
	if (!done)
		return 'refused';
	let text = start;
	for (let i = 0; i < fields.length; i += 2)
		text += ` [${fields[i]}:${fields[i + 1].replace(/[ \t]+$/, '')}]`;
	return escape(`${text} body=${body}`);
}

console.log(process.versions.llhttp);
for (const line of fs.readFileSync(process.argv[2], 'latin1').split('\n')) {
	const found = /^(request|response|response-head)\s+(\S+)\s+\S+\s+"(.*)"$/.exec(line);
	if (found)
		console.log(`${found[2]}\t${meaning(found[1], unescape(found[3]))}`);
}
