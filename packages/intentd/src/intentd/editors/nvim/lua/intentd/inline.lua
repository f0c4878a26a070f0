-- Inline completion: Neovim asks and shows; this withdraws what is stale, and accepts all of it, a line or a word.
local api, M, guarded, offered, METHOD = vim.api, {}, {}, nil, 'textDocument/inlineCompletion'
local PIECES = { line = { '^[^\n]+', '^\n[^\n]*' }, word = { '^[ \t]*[%w_\128-\255]+', '^[ \t]*[^%w%s]+', '^%s+' } }

-- What is left to insert at the cursor after what was typed since; nil where that went another way.
local function rest()
  local at = api.nvim_win_get_cursor(0)
  if not offered or offered.buf ~= api.nvim_get_current_buf() or offered.row ~= at[1] - 1 then return end
  local typed = api.nvim_get_current_line():sub(offered.column + 1, at[2])
  local fits = at[2] >= offered.column and #typed < #offered.text and vim.startswith(offered.text, typed)
  return fits and offered.text:sub(#typed + 1) or nil
end
local function withdraw() offered = offered and offered.show({ items = {} }) and nil end

local function offer(item, client, buf, show)
  local start = item.range.start
  local line = api.nvim_buf_get_lines(buf, start.line, start.line + 1, false)[1] or ''
  local column = vim.str_byteindex(line, client.offset_encoding, start.character, false)
  offered = { text = item.insertText, row = start.line, column = column, buf = buf, show = show }
  offered.done = function() return item.command and client:exec_cmd(item.command, { bufnr = buf }) end
  show({ items = { item } })
end

-- Neovim 0.12 shows whatever comes, however late, and keeps the old where nothing comes: look before it does.
local function guard(client)
  local request = client.request
  local function state() return { api.nvim_win_get_cursor(0), api.nvim_get_current_buf(), vim.b.changedtick } end
  client.request = function(self, method, params, handler, ...)
    if method ~= METHOD then return request(self, method, params, handler, ...) end
    local asked = state()
    return request(self, method, params, function(fault, result, context)
      if fault or vim.fn.mode() ~= 'i' or not vim.deep_equal(asked, state()) then return end
      local item = type(result) == 'table' and (result.items or result)[1]
      withdraw()
      if item then offer(item, client, asked[2], function(items) handler(nil, items, context) end) end
    end, ...)
  end
  return true
end

function M.enable(client, buf)
  if not vim.lsp.inline_completion or not client:supports_method(METHOD) then return end
  guarded[client.id] = guarded[client.id] or guard(client)
  vim.lsp.inline_completion.enable(true, { bufnr = buf })
end

function M.moved(event) return (event.event == 'InsertLeave' or not rest()) and withdraw() end

local function insert(left, kind)
  local piece, at, last = nil, api.nvim_win_get_cursor(0), offered
  for _, pattern in ipairs(PIECES[kind] or { '.+' }) do piece = piece or left:match(pattern) end
  local lines = vim.split(piece, '\n')
  vim.bo.undolevels = vim.bo.undolevels -- so that it can be undone by itself
  api.nvim_buf_set_text(0, at[1] - 1, at[2], at[1] - 1, at[2], lines)
  api.nvim_win_set_cursor(0, { at[1] + #lines - 1, (#lines == 1 and at[2] or 0) + #lines[#lines] })
  if piece == left then last.done() end
end

-- 'word', 'line' or all; false where there is nothing to accept, so that a mapping can do something else instead.
function M.accept(kind)
  local left, piece = rest(), type(kind) == 'table' and kind.args or kind
  vim.schedule(function() return left and rest() == left and insert(left, piece) end)
  return left ~= nil
end
return M
