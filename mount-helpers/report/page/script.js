// SPDX-License-Identifier: MIT
// A row for each tensor.
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
document.querySelector('h1').textContent = data.source.path;
data.names.forEach((name, i) => {
  const row = document.querySelector('tbody').insertRow();
  const shape = data.layouts[data.layout[i]].shape;
  for (const text of [name, data.dtypes[data.dtype[i]], `[${shape}]`, data.bytes[i]]) row.insertCell().textContent = text;
  if (data.damage[i]) row.dataset.damage = data.damage[i];
});
