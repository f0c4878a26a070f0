-- Inline completion: Neovim asks and shows; this withdraws what is stale, and accepts all of it, a line or a word.
local api, M, guarded, offered, METHOD = vim.api, {}, {}, nil, 'textDocument/inlineCompletion'
local PIECES = { line = { '^[^\n]+', '^\n[^\n]*' }, word = { '^[ \t]*[%w_\128-\255]+', '^[ \t]*[^%w%s]+', '^%s+' } }

-- What is left to insert at the cursor after what was typed since; nil where that went another way.
local function rest()
  local at, line = api.nvim_win_get_cursor(0), api.nvim_get_current_line()
  if not offered or vim.fn.mode() ~= 'i' or offered.buf ~= vim.fn.bufnr() or offered.row ~= at[1] then return end
  local fits = at[2] >= offered.column and at[2] < #offered.line and vim.startswith(offered.line, line:sub(1, at[2]))
  return fits and line:sub(at[2] + 1) == offered.behind and offered.line:sub(at[2] + 1) or nil
end
local function withdraw() offered = offered and offered.show({ items = {} }) and nil end
local function offer(item, client, asked, show)
  local line, at, buf, text = api.nvim_get_current_line(), asked[1], asked[2], item.insertText:gsub('\r\n', '\n')
  local column = vim.str_byteindex(line, client.offset_encoding, item.range.start.character, false)
  local new = { line = line:sub(1, column) .. text, behind = line:sub(at[2] + 1), column = column }
  item.insertText, new.row, new.buf, new.show = text, at[1], buf, show -- lines of a buffer have no CR
  offered = show({ items = { item } }) and new -- fails where completions were switched off since
end

-- Neovim 0.12 shows whatever comes, however late, and keeps the old where nothing comes: look before it does. It asks
-- once where the cursor rests: where nothing comes, ask a little later for what is being made.
local function guard(client)
  local request = client.request
  local function state() return { api.nvim_win_get_cursor(0), api.nvim_get_current_buf(), vim.b.changedtick } end
  client.request = function(self, method, params, handler, ...)
    if method ~= METHOD then return request(self, method, params, handler, ...) end
    local asked, tries = state(), 0
    local function holds() return vim.fn.mode() == 'i' and vim.deep_equal(asked, state()) end
    local function answered(fault, result, context)
      if fault or not holds() then return end
      local item = type(result) == 'table' and (result.items or result)[1]
      local function again() return holds() and request(self, method, params, answered) end
      withdraw()
      tries = tries + 1
      if item then return offer(item, client, asked, function(items) return pcall(handler, nil, items, context) end) end
      if tries < 10 then vim.defer_fn(again, math.floor(400 * 1.4 ^ tries)) end
    end
    return request(self, method, params, answered, ...)
  end
end

function M.enable(client, buf)
  if not vim.lsp.inline_completion or not client:supports_method(METHOD) then return end
  guarded[client.id] = guarded[client.id] or guard(client) or true
  if vim.b[buf]._lsp_enabled_inline_completion == nil then vim.lsp.inline_completion.enable(true, { bufnr = buf }) end
end
function M.moved() return not rest() and withdraw() end

local function insert(left, kind)
  local piece, at = nil, api.nvim_win_get_cursor(0)
  for _, pattern in ipairs(PIECES[kind] or { '.+' }) do piece = piece or left:match(pattern) end
  local lines = vim.split(piece, '\n')
  vim.bo.undolevels = vim.bo.undolevels -- so that it can be undone by itself
  api.nvim_buf_set_text(0, at[1] - 1, at[2], at[1] - 1, at[2], lines)
  api.nvim_win_set_cursor(0, { at[1] + #lines - 1, (#lines == 1 and at[2] or 0) + #lines[#lines] })
end

-- 'word', 'line' or all; false where there is nothing to accept, so that a mapping can do something else instead.
function M.accept(kind)
  local left, piece = rest(), type(kind) == 'table' and kind.args or kind
  vim.schedule(function() return left and rest() == left and insert(left, piece) end)
  return left ~= nil
end
return M
