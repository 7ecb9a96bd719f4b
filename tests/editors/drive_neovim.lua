-- Does what somebody would do in Neovim, and writes down what is to be seen.
local report, patience = {}, 20000

local function await(what, condition)
  if not vim.wait(patience, condition, 20) then
    error("waited in vain for " .. what)
  end
end

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n") .. "\n"
end

local function found()
  local list = {}
  for _, diagnostic in ipairs(vim.diagnostic.get(0)) do
    local line = vim.api.nvim_buf_get_lines(0, diagnostic.lnum, diagnostic.lnum + 1, false)[1]
    table.insert(list, {
      code = diagnostic.code,
      row = diagnostic.lnum + 1,
      column = vim.str_utfindex(line, diagnostic.col) + 1,
      message = diagnostic.message,
      source = diagnostic.source,
    })
  end
  return list
end

local function changed_by(what, act)
  local before = vim.b.changedtick
  act()
  await(what, function()
    return vim.b.changedtick ~= before
  end)
  return text()
end

local function drive()
  await("diagnostics", function()
    return #vim.diagnostic.get(0) > 0
  end)
  report.found = found()

  local row = vim.fn.search("clip_grad_norm_")
  report.quick_fix = changed_by("the quick fix", function()
    vim.lsp.buf.code_action({
      filter = function(action)
        return action.kind == "quickfix" and action.isPreferred == true
      end,
      apply = true,
    })
  end)
  await("the diagnostics after the quick fix", function()
    return #vim.diagnostic.get(0, { lnum = row - 1 }) == 0 and #vim.diagnostic.get(0) > 0
  end)
  report.found_after = found()

  vim.cmd("edit!")
  await("the diagnostics of the file", function()
    return #vim.diagnostic.get(0) == #report.found
  end)
  report.fix_all = changed_by("fix all", function()
    vim.api.nvim_feedkeys(vim.keycode and vim.keycode("<leader>gf") or "\\gf", "mx", false)
  end)

  vim.cmd("edit!")
  vim.cmd("write")
  report.saved = table.concat(vim.fn.readfile(vim.api.nvim_buf_get_name(0)), "\n") .. "\n"
  report.messages = vim.fn.execute("messages")
end

local fine, problem = pcall(drive)
report.problem = not fine and tostring(problem) or nil
vim.fn.writefile({ vim.json.encode(report) }, vim.env.REPORT)
vim.cmd("qall!")
